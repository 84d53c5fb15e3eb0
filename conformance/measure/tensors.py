"""Real Q, K and V from a file, sampled like the regimes of the reference.

A file is `.safetensors` (F16, BF16, F32, F64) or `.npz` (float16, float32, float64). It
holds tensors named `q`, `k` and `v`, or `PREFIX.q`, `PREFIX.k` and `PREFIX.v`, one group a
prefix, as `layers.7.k`; other tensors are ignored. Shapes are (tokens, d), (heads, tokens,
d) or (layers, heads, tokens, d). The query heads are a multiple of the key heads H_kv: query
head h of H reads key head h // (H / H_kv), as in grouped-query attention. Keys are what the
queries meet, after RoPE. Attention is causal, and queries fewer than the tokens stand at the
last positions.
"""

import hashlib
import math
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from kvassay.reference.regimes import Sample

Floats = NDArray[np.float32]

SHIPPED = "smollm2-135m-qkv.safetensors"
QUERIES = 64  # at most, a sample
DIMS = (16, 8192)
MIN_TOKENS = 16
MAX_BYTES = 16 * 2**30
_MAX_HEADER = 2**16


@dataclass(frozen=True, eq=False)
class Head:
    """One key head of one layer, float32: `k` and `v` (N, d).

    `q` (G M, d) holds the M queries of each of the G query heads that read it, head after
    head; query i sees the keys 0..positions[i].
    """

    name: str
    q: Floats
    k: Floats
    v: Floats
    positions: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tensors:
    """The key heads of a file. A regime whose population is these heads.

    `name` is the file's stem, `dim` is d, `sha256` the digest of the file. Heads stand in
    the order of prefix (numbers in their order), layer and head.
    """

    name: str
    dim: int
    heads: tuple[Head, ...]
    sha256: str

    def sample(self, index: int) -> Sample:
        """Head `index` modulo the number of heads, always the same sample.

        Its queries are those in the later half of the positions, so that each sees many
        keys; where they are more than 64, 64 evenly spaced among them. The calibration
        tokens are the first half of the head's own tokens, so they are among its keys: a
        prefix calibrates, as in a prefill.
        """
        head = self.heads[index % len(self.heads)]
        half = len(head.k) // 2
        late = np.flatnonzero(head.positions >= half)
        if len(late) > QUERIES:
            late = late[np.linspace(0, len(late) - 1, QUERIES).round().astype(np.int64)]
        q, k, v = (x.astype(np.float64) for x in (head.q[late], head.k, head.v))
        return Sample(q, k, v, head.positions[late], k[:half], v[:half])

    def draw(self, rng: np.random.Generator) -> Sample:
        """The sample of a head drawn at random."""
        return self.sample(int(rng.integers(len(self.heads))))


def shipped() -> Tensors:
    """Five layers of SmolLM2-135M, cut to 256 tokens; see data/README.md."""
    with resources.as_file(resources.files("kvassay.conformance") / "data" / SHIPPED) as path:
        return load(path)


def load(path: str | Path) -> Tensors:
    """The tensors of a `.safetensors` or `.npz` file; the module says what it may hold.

    d must be in 16..8192 and the same in the whole file, tokens at least 16 and at most
    16 GiB be needed in float32, all values finite. ValueError, one sentence naming the
    file and the tensor, for anything else; pickled objects are never loaded.
    """
    path = Path(path)
    try:
        content = _content(path)
        groups = _groups(_OPENERS[path.suffix](content))
        heads = tuple(head for prefix, group in groups.items() for head in _heads(prefix, group))
    except OSError as error:
        raise ValueError(f"{path}: must be readable, got {_reason(error)}") from None
    except MemoryError:
        raise ValueError(f"{path}: must fit in memory, got more: cut it") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return Tensors(path.stem, heads[0].k.shape[1], heads, hashlib.sha256(content).hexdigest())


@dataclass(frozen=True)
class _Stored:
    """A tensor still in its file: what it declares, and a way to its values."""

    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], Floats]


def _content(path: Path) -> bytes:
    if path.suffix not in _OPENERS:
        raise ValueError(f"must end in {' or '.join(_OPENERS)}, got {path.suffix!r}")
    if not path.is_file():
        found = "a directory or a device" if path.exists() else "nothing at that path"
        raise ValueError(f"must be a file, got {found}")
    if (size := path.stat().st_size) > MAX_BYTES:
        raise ValueError(f"must be at most 16 GiB, got {size} bytes: cut it")
    return path.read_bytes()


def _groups(tensors: Mapping[str, Callable[[], _Stored]]) -> dict[str, dict[str, _Stored]]:
    """{prefix with its dot: {"q", "k", "v"}}, in order; shapes and types keep the rules."""
    groups: dict[str, dict[str, _Stored]] = {}
    for name in sorted(tensors, key=lambda name: re.sub(r"\d+", lambda n: n[0].zfill(9), name)):
        if match := re.fullmatch(r"(|.*\.)([qkv])", name, re.DOTALL):
            groups.setdefault(match[1], {})[match[2]] = tensors[name]()
    if not groups:
        found = ", ".join(map(_shown, sorted(tensors)[:5])) or "no tensors"
        raise ValueError(f"must hold tensors named q, k, v or PREFIX.q, .k, .v, got {found}")
    for prefix, group in groups.items():
        for letter in "qkv":
            if letter not in group:
                missing, found = _shown(prefix + letter), ", ".join(sorted(group))
                raise ValueError(f"must hold a tensor {missing}, got only {found} of that prefix")
        _check_group(prefix, group)
    dim = next(iter(groups.values()))["k"].shape[-1]
    for prefix, group in groups.items():
        if (own := group["k"].shape[-1]) != dim:
            raise ValueError(f"{_shown(prefix + 'k')} must have d = {dim} as the first, got {own}")
    size = 4 * sum(math.prod(one.shape) for group in groups.values() for one in group.values())
    if size > MAX_BYTES:
        raise ValueError(
            f"must hold at most 16 GiB of q, k, v in float32, got {size} bytes: cut it"
        )
    return groups


def _check_group(prefix: str, group: Mapping[str, _Stored]) -> None:
    q, k, v = (_shown(prefix + letter) for letter in "qkv")
    for letter, one in group.items():
        name = _shown(prefix + letter)
        if one.dtype not in ("F16", "BF16", "F32", "F64"):
            raise ValueError(
                f"{name} must be float16, bfloat16 (in .safetensors), float32 or float64, "
                f"got {one.dtype}"
            )
        if not 2 <= len(one.shape) <= 4 or min(one.shape) < 1:
            raise ValueError(
                f"{name} must have shape (tokens, d), (heads, tokens, d) or (layers, heads, "
                f"tokens, d), none of them 0, got {one.shape}"
            )
    *_, tokens, dim = shape = group["k"].shape
    if not DIMS[0] <= dim <= DIMS[1]:
        raise ValueError(f"{k} must have d in 16..8192, got d = {dim} in shape {shape}")
    if tokens < MIN_TOKENS:
        raise ValueError(f"{k} must have at least 16 tokens, got {tokens} in shape {shape}")
    if group["v"].shape != shape:
        raise ValueError(f"{v} must have the shape {shape} of {k}, got {group['v'].shape}")
    layers, heads, queries, q_dim = _four_dimensional(asked := group["q"].shape)
    k_layers, k_heads, *_ = _four_dimensional(shape)
    if q_dim != dim or layers != k_layers:
        raise ValueError(f"{q} must have the d and the layers of {k}, {shape}, got {asked}")
    if heads % k_heads:
        raise ValueError(f"{q} must have a multiple of the {k_heads} heads of {k}, got {heads}")
    if queries > tokens:
        raise ValueError(f"{q} must have at most the {tokens} tokens of {k}, got {queries}")


def _heads(prefix: str, group: Mapping[str, _Stored]) -> list[Head]:
    arrays = {}
    for letter, one in group.items():
        array = one.read()
        if not np.isfinite(array).all():
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise ValueError(
                f"{_shown(prefix + letter)} must be finite in float32, "
                f"got NaN or infinity at {place}"
            )
        arrays[letter] = array.reshape(_four_dimensional(one.shape))
    layers, heads, tokens, dim = arrays["k"].shape
    queries = arrays["q"].shape[2]
    q = arrays["q"].reshape(layers, heads, -1, dim)  # consecutive query heads share one key head
    positions = np.tile(np.arange(tokens - queries, tokens), q.shape[2] // queries)
    parts = [prefix.removesuffix(".")] if prefix else []
    return [
        Head(
            ", ".join([*parts, *([f"layer {layer}"] if layers > 1 else []), f"head {head}"]),
            q[layer, head],
            arrays["k"][layer, head],
            arrays["v"][layer, head],
            positions,
        )
        for layer in range(layers)
        for head in range(heads)
    ]


def _four_dimensional(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (4 - len(shape)) + shape


def _open_safetensors(content: bytes) -> dict[str, Callable[[], _Stored]]:
    try:
        entries = deserialize(content)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ValueError(f"must be a whole safetensors file, got {_reason(error)}") from None
    return {name: partial(_stored_entry, entry) for name, entry in entries}


def _stored_entry(entry: dict[str, Any]) -> _Stored:
    shape = tuple(entry["shape"])

    def read() -> Floats:
        if entry["dtype"] == "BF16":  # the upper half of a float32
            upper = np.frombuffer(entry["data"], "<u2").astype(np.uint32)
            return (upper << 16).view(np.float32).reshape(shape)
        dtype = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}[entry["dtype"]]
        return _to_float32(np.frombuffer(entry["data"], dtype).reshape(shape))

    return _Stored(entry["dtype"], shape, read)


def _open_npz(content: bytes) -> dict[str, Callable[[], _Stored]]:
    try:
        archive = zipfile.ZipFile(BytesIO(content))
    except Exception as error:  # whatever zipfile meets in a hostile directory
        raise ValueError(f"must be a whole npz file, got {_reason(error)}") from None
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    return {name: partial(_stored_member, archive, name, one) for name, one in members.items()}


def _stored_member(archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo) -> _Stored:
    """What the member's header declares. Sizes are compared before anything is inflated."""
    rule = f"{_shown(name)} must be a whole array as numpy.savez writes it"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{rule}, got zip compression {info.compress_type}")
    try:
        with archive.open(info) as file:
            header = BytesIO(file.read(_MAX_HEADER))
        is_first = npy.read_magic(header) == (1, 0)
        read_header = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
        shape, fortran, dtype = read_header(header)
    except Exception as error:  # zlib, struct, tokenizer, encryption: all a bad file
        raise ValueError(f"{rule}, got {_reason(error)}") from None
    if dtype.hasobject:
        raise ValueError(f"{_shown(name)} must hold numbers, got pickled objects, never loaded")
    start, size = header.tell(), math.prod(shape) * dtype.itemsize
    if info.file_size != start + size:
        raise ValueError(f"{rule}, got {info.file_size - start} bytes for {dtype} {shape}")

    def read() -> Floats:
        try:
            with archive.open(info) as file:
                file.read(start)
                data = file.read(size)  # up to the end, where zipfile compares the CRC
            array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
        except Exception as error:
            raise ValueError(f"{rule}, got {_reason(error)}") from None
        return _to_float32(array)

    names = {"float16": "F16", "float32": "F32", "float64": "F64"}
    return _Stored(names.get(dtype.name, dtype.name), shape, read)


def _to_float32(array: NDArray[Any]) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused after
        return np.ascontiguousarray(array, dtype=np.float32)


def _shown(name: str) -> str:
    """A tensor's name, quoted, short and without control characters."""
    return repr(name if len(name) <= 80 else name[:77] + "...")


def _reason(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")[:200] or type(error).__name__


_OPENERS = {".safetensors": _open_safetensors, ".npz": _open_npz}
