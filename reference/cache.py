"""The reference cache: what a quantized KV cache must do, over any two codecs.

A row is a list of tokens. Its first `first` tokens are kept as they came. Behind them tokens
settle, `group` at a time: once quantized, never touched again. The last ones, at least `last` and
fewer than `last + group`, are still as they came. Which tokens have settled depends on their number
alone, never on how they were appended.

Arrays are never written to, so that rows can be shared: a fork or a repeated row costs nothing, and
neither sees what the other gets later.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvassay.reference import attention
from kvassay.reference._checks import require_integer
from kvassay.reference.sphere import Array

Tokens = NDArray[np.float32]  # (tokens, heads, dim)


@dataclass(frozen=True)
class Half:
    """How K or V is quantized: `codec` on each token of a head, with codec.dim = dim; or, if
    `along_tokens`, on each channel of a head over a group of tokens, with codec.dim = group (as
    KIVI does with K, arXiv:2402.02750)."""

    codec: Any
    along_tokens: bool = False

    def encode(self, tokens: Tokens, group: int) -> Any:
        """The code of a multiple of `group` tokens, vectors in the order of the tokens."""
        if self.along_tokens:
            groups = tokens.reshape(-1, group, *tokens.shape[1:])
            return self.codec.encode(groups.transpose(0, 2, 3, 1).reshape(-1, group))
        return self.codec.encode(tokens.reshape(-1, tokens.shape[2]))

    def decode(self, code: Any, heads: int, dim: int, group: int) -> Array:
        """The tokens of a code, (tokens, heads, dim)."""
        vectors = np.asarray(self.codec.decode(code))
        if not self.along_tokens:
            return vectors.reshape(-1, heads, dim)
        return vectors.reshape(-1, heads, dim, group).transpose(0, 3, 1, 2).reshape(-1, heads, dim)


@dataclass(frozen=True, eq=False)
class Row:
    """One row: K and V of its exact `first` and `last` tokens, and the `codes` of the `settled`
    tokens between them (None where there are none)."""

    first: tuple[Tokens, Tokens]
    last: tuple[Tokens, Tokens]
    codes: tuple[Any, Any] = (None, None)
    settled: int = 0

    def __len__(self) -> int:
        return len(self.first[0]) + self.settled + len(self.last[0])

    @property
    def nbytes(self) -> int:
        """Bytes of all its tokens."""
        codes = (code for code in self.codes if code is not None)
        return sum(part.nbytes for part in (*self.first, *self.last, *codes))


class Cache:
    """A cache of `heads` heads of dimension `dim`, K and V as the halves say. ValueError for what
    it cannot do."""

    def __init__(
        self, k: Half, v: Half, dim: int, heads: int, first: int = 0, last: int = 0, group: int = 1
    ) -> None:
        self.halves = (k, v)
        self.dim = require_integer("dim", dim, 2)
        self.heads = require_integer("heads", heads, 1)
        self.first = require_integer("first", first, 0)
        self.last = require_integer("last", last, 0)
        self.group = require_integer("group", group, 1)
        self.rows: tuple[Row, ...] | None = None

    def __len__(self) -> int:
        return len(self.rows[0]) if self.rows else 0

    def append(self, k: ArrayLike, v: ArrayLike) -> None:
        """The next T tokens of each row: float32 (B, H, T, d) each, finite; T may be 0."""
        k, v = (self._checked(name, value) for name, value in (("k", k), ("v", v)))
        if k.shape != v.shape:
            raise ValueError(f"v must have the shape {k.shape} of k, got {v.shape}")
        if self.rows is None:
            none = np.zeros((0, self.heads, self.dim), np.float32)
            self.rows = (Row((none, none), (none, none)),) * len(k)
        if len(k) != len(self.rows):
            raise ValueError(f"k must have {len(self.rows)} rows, got {len(k)}")
        pairs = zip(self.rows, k.swapaxes(1, 2), v.swapaxes(1, 2), strict=True)
        self.rows = tuple(self._longer(row, (key, value)) for row, key, value in pairs)

    def read(self) -> tuple[Array, Array]:
        """K and V, float64 (B, H, N, d) each."""
        read = [[self._read(row, which) for row in self._there()] for which in (0, 1)]
        k, v = (np.stack(rows).swapaxes(1, 2) for rows in read)
        return k, v

    def attend(self, q: ArrayLike) -> Array:
        """Outputs for queries (B, g H, M, d) of the last M positions, causal, of that shape."""
        queries = np.asarray(q, dtype=np.float64)
        k, v = self.read()
        if queries.ndim != 4 or len(queries) != len(k):
            raise ValueError(f"q must have shape ({len(k)}, g H, M, d), got {queries.shape}")
        each = zip(queries, k, v, strict=True)
        return np.stack([attention.grouped(*one, causal=True) for one in each])

    def nbytes(self) -> int:
        """All bytes that the tokens take."""
        return sum(row.nbytes for row in self._there())

    def crop(self, length: int) -> None:
        """Forgets all after the first `length` tokens. ValueError for a length that there is not,
        or one that cuts a settled group."""
        require_integer("length", length, 0, len(self))
        self.rows = tuple(self._cropped(row, length) for row in self._there())

    def select(self, rows: Sequence[int]) -> None:
        """Goes on with these rows, at least one: reordered, repeated or dropped."""
        there = self._there()
        if not len(rows):
            raise ValueError("rows must name at least one row, got none")
        self.rows = tuple(there[require_integer("rows", i, 0, len(there) - 1)] for i in rows)

    def fork(self) -> "Cache":
        """A cache of its own that begins with what this one holds."""
        return copy(self)

    def _longer(self, row: Row, new: Iterable[Tokens]) -> Row:
        """The row with new tokens: first those that stay exact, then whole groups that settle."""
        new = tuple(new)
        room = 0 if row.settled or len(row.last[0]) else self.first - len(row.first[0])
        first = _each(lambda old, more: np.concatenate([old, more[:room]]), row.first, new)
        last = _each(lambda old, more: np.concatenate([old, more[room:]]), row.last, new)
        due = max(len(last[0]) - self.last, 0) // self.group * self.group
        codes = row.codes
        if due:
            more = _each(lambda half, x: half.encode(x[:due], self.group), self.halves, last)
            codes = _each(_joined, row.codes, more)
        last = _each(lambda x: x[due:].copy(), last)
        return Row(first, last, codes, row.settled + due)

    def _read(self, row: Row, which: int) -> Array:
        parts: list[NDArray[Any]] = [row.first[which], row.last[which]]
        if row.settled:
            half, code = self.halves[which], row.codes[which]
            parts.insert(1, half.decode(code, self.heads, self.dim, self.group))
        return np.concatenate(parts, dtype=np.float64)

    def _cropped(self, row: Row, length: int) -> Row:
        behind = length - len(row.first[0])
        if behind <= 0:
            row = replace(row, settled=0, codes=(None, None))
        elif behind < row.settled:
            if behind % self.group:
                raise ValueError(f"length must not cut a settled group of {self.group} tokens")
            codes = _each(lambda code: _cut(code, behind, row.settled), row.codes)
            row = replace(row, settled=behind, codes=codes)
        keep = max(behind - row.settled, 0)
        first = _each(lambda x: x[:length].copy(), row.first)
        return replace(row, first=first, last=_each(lambda x: x[:keep].copy(), row.last))

    def _checked(self, name: str, value: ArrayLike) -> Tokens:
        array = np.asarray(value)
        if array.dtype.kind != "f" or array.ndim != 4 or not len(array):
            raise ValueError(f"{name} must be floating point (B, H, T, d), got {array.shape}")
        if (array.shape[1], array.shape[3]) != (self.heads, self.dim):
            raise ValueError(
                f"{name} must have {self.heads} heads of dimension {self.dim}, got {array.shape}"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, got NaN or infinity")
        return array.astype(np.float32)

    def _there(self) -> tuple[Row, ...]:
        if self.rows is None:
            raise ValueError("the cache has no rows before the first append")
        return self.rows


def _each(make: Callable[..., Any], *parts: Iterable[Any]) -> tuple[Any, Any]:
    """`make` of K's parts and of V's."""
    k, v = map(make, *parts)
    return k, v


def _joined(code: Any, more: Any) -> Any:
    if code is None:
        return more
    return _changed(code, lambda name, part: np.concatenate([part, getattr(more, name)]))


def _cut(code: Any, tokens: int, of: int) -> Any:
    """The code of the first `tokens` of its `of` tokens."""
    return _changed(code, lambda name, part: part[: len(part) * tokens // of].copy())


def _changed(code: Any, change: Callable[[str, Any], Any]) -> Any:
    """The code with each array that it has changed."""
    there = {name: part for name, part in vars(code).items() if part is not None}
    return replace(code, **{name: change(name, part) for name, part in there.items()})
