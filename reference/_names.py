"""Names that several modules know. Loads nothing."""

SKETCHES = ("gaussian", "orthogonal")
