"""Whether the golden vectors find faults in a second implementation, and name them.

    python benchmarks/second_vectors.py

The codecs of second_codec.py share no code with `reference/`, work in float32 and pack otherwise.
They are given the signs, tables and sketches of the vectors, with one fault at a time. Prints those
that no vector finds or that are named otherwise, then the shares with their Wilson intervals at
95 %. Without a fault every answer must be right. A fault that gives no reference's answer exactly
is not named: then only where it differs is said.
"""

import sys
from math import pi, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from second_codec import FAULTS, SHARED, SecondCodec, share

from kvassay.conformance.faults import families
from kvassay.conformance.vectors import judge, schema
from kvassay.reference.sphere import mean_abs

GROUPS = ("rotate", "unrotate", "encode", "decode", "scores", "roundtrip")


def codec(asked: judge.Asked, fault: str) -> SecondCodec:
    """The second codec with what the vector gives in place of what it draws."""
    question, inputs = asked.question, asked.question.inputs
    made, plain = (
        SecondCodec(question.dim, question.bits, 0, question.sketch, f) for f in (fault, "")
    )
    made.signs = inputs["signs"].astype(np.float32)
    if "levels" in inputs and made.width == question.scalar_bits:
        made.levels = (inputs["levels"] * (made.levels / plain.levels)).astype(np.float32)
    if question.sketch:
        if not made.has("sketch is the rotation"):
            made.matrix = inputs["sketch"][: made.rows].astype(np.float32)
        if question.sketch == "orthogonal":  # its scale is that for many dimensions
            made.scale *= sqrt(2 / pi) / sqrt(question.dim) / mean_abs(question.dim)
    return made


def answer(asked: judge.Asked, fault: str) -> dict[str, np.ndarray]:
    """What the second codec answers; codes are stored and read in its own layout."""
    question, inputs = asked.question, asked.question.inputs
    made, plain = codec(asked, fault), codec(asked, "")
    if question.group == "rotate":
        return {"y": made.rotate(inputs["x"])}
    if question.group == "unrotate":
        return {"x": made.unrotate(inputs["y"])}
    if question.group == "roundtrip":
        return {"x": made.decode(made.encode(inputs["x"]))}
    if question.group == "encode":
        code = made.encode(inputs["x"])
        out = {"norms": code["norms"]}
        if plain.width:
            out["indices"] = plain._unpack(code["indices"]).astype(np.uint8)
        if question.sketch:
            bits = np.unpackbits(code["signs"], axis=1, count=plain.rows)
            out["sketch_signs"] = bits.astype(np.int8) * 2 - 1
            out["residual_norms"] = code["residual_norms"]
        return out
    indices = inputs.get("indices", np.zeros((len(inputs["norms"]), question.dim), np.uint8))
    code = {"indices": plain._pack(indices), "norms": inputs["norms"]}
    if question.sketch:
        code["signs"] = np.packbits(inputs["sketch_signs"] > 0, axis=1)
        code["residual_norms"] = inputs["residual_norms"]
    if question.group == "decode":
        return {"x": made.decode(code)}
    return {"scores": made.inner_products(inputs["q"], code)}


def judged(vectors: list[judge.Asked], fault: str, folder: Path) -> list[judge.Judged]:
    """What becomes of the second codec's answers, through files as anybody's. One that it cannot
    give is an answer without outputs."""
    arrays, answers = schema.Arrays(), []
    for each in vectors:
        try:
            with np.errstate(all="ignore"):
                outputs = answer(each, fault)
        except (ValueError, IndexError):
            outputs = {}
        known = {"float32": np.float32, "float64": np.float64, "int8": np.int8, "uint8": np.uint8}
        parts = {
            name: arrays.put(np.asarray(array, known.get(array.dtype.name, np.float64)))
            for name, array in outputs.items()
        }
        answers.append(schema.Answer(each.id, parts))
    path = folder / "answers.json"
    path.write_text(schema.written({"data": "answers.bin"}, "answers", answers))
    (folder / "answers.bin").write_bytes(bytes(arrays.content))
    return judge.judge(vectors, [path])


def mine(asked: judge.Asked) -> bool:
    """Whether the second codec has this kind, size and design; it takes no empty batch."""
    if len(asked.question.inputs.get("x", "x")) == 0:
        return False
    question = asked.question
    power = question.dim & (question.dim - 1) == 0
    kind = question.kind in ("turboquant-mse", "turboquant-prod") and question.design.plain
    return kind and power and question.dim > 4 and "signs" in question.inputs


def main() -> int:
    vectors = [each for each in judge.asked(GROUPS) if mine(each)]
    found, named, alike = [], [], []
    with TemporaryDirectory() as name:
        folder = Path(name)
        wrong = [each for each in judged(vectors, "", folder) if each.status == "wrong"]
        for each in wrong:
            print(f"  without a fault: {each.group} {each.about}: {each.text}")
        for fault, switch in FAULTS.items():
            np.random.seed(0)  # noqa: NPY002  what a fault draws
            sketched = [
                e for e in vectors if (switch.where == SHARED) or e.question.sketch == switch.sketch
            ]
            results = judged(sketched, fault, folder)
            found.append(any(each.status == "wrong" for each in results))
            if not found[-1]:
                print(f"  {fault}: all answers are right")
                continue
            exact = list(judge.looks_like(results))[:1]
            places = judge.wrong_alike(results)
            best = [name for name, part in places.items() if part == max(places.values())]
            said = {families.family_of(name).id for name in exact or best}
            (named if exact else alike).append(switch.family in said)
            if switch.family not in said:
                print(f"  {fault}: {', '.join(sorted(said)) or 'nothing'}, not {switch.family}")
    print(f"{len(vectors)} vectors; without a fault {len(wrong)} answers are wrong")
    print(f"faults found: {share(sum(found), len(found))}")
    print(f"of answers that a known fault gives, the right family: {share(sum(named), len(named))}")
    print(f"of others, among those wrong on the same vectors: {share(sum(alike), len(alike))}")
    both = named + alike
    print(f"the right family said, in all: {share(sum(both), len(both))}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
