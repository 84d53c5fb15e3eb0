"""Lines of records, to read and to forge."""

import json


def fault(id, caught, proof=""):
    """A row of the kill table, as `kvassay faults --json` prints it."""
    about = {"text": "What is wrong.", "source": "", "proof": proof, "missed": [], "ok": True}
    return {"id": id, "caught": caught, **about}


def lines(path):
    """The lines of a record as objects."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def rewritten(path, changed):
    """A record of these lines in place of another."""
    path.write_text("".join(json.dumps(line) + "\n" for line in changed))
    return path
