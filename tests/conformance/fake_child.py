"""A child that speaks docs/protocol.md badly. python fake_child.py FAULT

Written from that page alone, without kvassay and without NumPy: encodes float32 as it is.
"""

import json
import os
import sys
import time

FAULT = sys.argv[1]
codes = {}


def reply(message, blob=b""):
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n" + blob)
    sys.stdout.buffer.flush()


def started():
    if FAULT == "slow start":
        time.sleep(60)
    if FAULT == "no start":
        sys.exit("no such device")
    if FAULT == "start refused":
        return reply({"error": "the driver is missing"})
    kinds = ["vq"] if FAULT == "unknown kind" else ["scalar"]
    told = {"protocol": 1, "name": "fake", "version": "1", "kinds": kinds, "sketches": []}
    if FAULT == "other protocol":
        told["protocol"] = 2
    if FAULT == "no name":
        del told["name"]
    reply({"result": told})


def decoded(code):
    shape, blob = codes[code]
    about = {"dtype": "float32", "shape": shape}
    match FAULT:
        case "exit":
            sys.stderr.write("out of memory\n")
            sys.exit(9)
        case "abort":
            os.abort()
        case "hang":
            time.sleep(60)
        case "garbage":
            sys.stdout.buffer.write(b"\x00\xff garbage" * 20 + b"\n")
            sys.stdout.buffer.flush()
        case "flood":
            while True:
                sys.stdout.buffer.write(b"x" * 2**16)
        case "half":
            reply({"result": {}, "arrays": [about]}, blob[:-4])
            sys.exit(0)
        case "stdout":
            print("decoding", flush=True)
            reply({"result": {}, "arrays": [about]}, blob)
        case "unasked":
            reply({"result": {}, "arrays": [about]}, blob + b"done\n")
        case "gigantic":
            reply({"result": {}, "arrays": [{"dtype": "float64", "shape": [10**8, 10**6]}]})
        case "negative":
            reply({"result": {}, "arrays": [{"dtype": "float32", "shape": [-1, 4]}]})
        case "object":
            reply({"result": {}, "arrays": [{"dtype": "object", "shape": [1]}]})
        case "no dtype":
            reply({"result": {}, "arrays": [{"dtype": [], "shape": [1]}]})
        case "many axes":
            reply({"result": {}, "arrays": [{"dtype": "float32", "shape": [0] * 100}]})
        case "many arrays":
            reply({"result": {}, "arrays": [about] * 3}, 3 * blob)
        case "no array":
            reply({"result": {}})
        case "list":
            reply([])
        case "wrong shape":
            reply({"result": {}, "arrays": [{"dtype": "float32", "shape": shape[::-1]}]}, blob)
        case "skipped":
            reply({"skipped": "no decoder yet"})
        case "error":
            reply({"error": "kernel failed"})
        case _:
            reply({"result": {}, "arrays": [about]}, blob)


for line in sys.stdin.buffer:
    message = json.loads(line)
    for about in message.get("arrays", []):
        size = 4
        for side in about["shape"]:
            size *= side
        blob = sys.stdin.buffer.read(size)
    match message["request"]:
        case "start":
            started()
        case "codec":
            methods = ["encode", "decode", "nbytes"]
            reply({"result": {"methods": methods[:2] if FAULT == "no nbytes" else methods}})
        case "encode":
            codes[message["code"]] = (message["arrays"][0]["shape"], blob)
            reply({"result": {}})
        case "decode":
            decoded(message["code"])
        case "nbytes":
            size = len(codes[message["code"]][1])
            reply({"result": {"declared": size, "held": size}})
        case "forget":
            for number in message["codes"]:
                codes.pop(number, None)
            reply({"result": {}})
