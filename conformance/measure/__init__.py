"""What is done with a backend for one seed, and the numbers that come out."""

from typing import Literal, get_args

Effort = Literal["quick", "standard", "thorough"]  # how small a violation must be found
EFFORTS: tuple[Effort, ...] = get_args(Effort)
