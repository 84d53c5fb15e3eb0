"""Golden vectors: inputs, the right answers, and the known faults that each vector shows.

In the order of the data: `questions` (what is asked), `answering` (what the reference, or a fault,
answers), `tolerances` (how far float32 arithmetic may lie), `make` (questions and answers into
files), `schema` (the files), `judge` (an implementer's answers).
"""
