"""What becomes of a claim, from its entries or findings."""

from collections.abc import Sequence

from kvassay.conformance.claims.claim import Claim
from kvassay.conformance.claims.question import PaperClaim, Question
from kvassay.conformance.evidence.schema import Entry, Finding, Outcome

JUDGED = ("theorem", "derived")
WORST_FIRST = ("violates", "error", "inconclusive", "conforms", "not applicable")


def codec_outcome(claim: Claim, entries: Sequence[Entry]) -> Outcome:
    """What became of a claim about a codec."""
    verdicts = [entry.verdict for entry in entries if entry.id == claim.id]
    applicable = [verdict for verdict in verdicts if verdict != "not applicable"]
    worst = next((word for word in WORST_FIRST if word in verdicts), "not applicable")
    good = applicable.count("conforms")
    return Outcome(
        claim.id,
        claim.standing,
        (worst,),
        f"conforms in {good} of {len(applicable)} cells and parts",
        good,
        len(applicable),
    )


def outcome(claim: PaperClaim, answered: Sequence[tuple[Question, Sequence[Finding]]]) -> Outcome:
    """What became of a claim that asks questions."""
    counted = [(question, found) for question, found in answered if not question.aside]
    judged = [
        (question, found) for question, found in counted if claim.standing_of(question) in JUDGED
    ]
    reported = [item for item in counted if item not in judged]
    words = []
    if judged:
        verdicts = {finding.verdict for _, found in judged for finding in found}
        words.append(next(word for word in WORST_FIRST if word in verdicts))
    if reported:
        answers = [_answer(question, found) for question, found in reported]
        order = ("error", "not applicable", "not reproduced", "undecided", "reproduced")
        word = next(word for word in order if word in answers)
        words.append("contested" if claim.standing == "contested" and word in order[2:] else word)
    details = []
    for question, found in counted:
        there = [finding.verdict for finding in found if finding.verdict != "not applicable"]
        good = sum(verdict in ("conforms", "agrees") for verdict in there)
        details.append(f"{question.text}: {good} of {len(there)}")
    everything = [finding.verdict for _, found in counted for finding in found]
    everything = [verdict for verdict in everything if verdict != "not applicable"]
    return Outcome(
        claim.id,
        claim.standing,
        tuple(words),
        "; ".join(details),
        sum(verdict in ("conforms", "agrees") for verdict in everything),
        len(everything),
    )


def _answer(question: Question, found: Sequence[Finding]) -> str:
    """Whether it is as the paper reports."""
    verdicts = [finding.verdict for finding in found if finding.verdict != "not applicable"]
    if not verdicts:
        return "not applicable"
    if "error" in verdicts:
        return "error"
    agree, differ = verdicts.count("agrees"), verdicts.count("differs")
    least = {"everywhere": len(verdicts), "mostly": len(verdicts) // 2 + 1, "somewhere": 1}
    if agree >= least[question.holds]:
        return "reproduced"
    if len(verdicts) - differ < least[question.holds]:
        return "not reproduced"
    return "undecided"
