"""The function door of `kvassay reproduce`:

from kvassay.conformance.reproduce import Settings, reproduce
results = reproduce("reference", Settings(claims=("kl-gap",)), workers=2)
"""

from kvassay.conformance.evidence.schema import Finding, Outcome
from kvassay.conformance.run.reproduce import Results, Settings, reproduce

__all__ = ["Finding", "Outcome", "Results", "Settings", "reproduce"]
