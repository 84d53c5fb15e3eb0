import hashlib
import io
import json
import struct
import zipfile
from importlib import resources

import numpy as np
import pytest
from safetensors.numpy import save

from kvassay.conformance.measure import tensors
from kvassay.conformance.measure.tensors import load, shipped

RNG = np.random.default_rng(0)


def normal(*shape, dtype="f4"):
    return RNG.standard_normal(shape).astype(dtype)


def group(heads=2, queries=20, tokens=20, dim=16, ratio=3, dtype="f4", prefix=""):
    return {
        prefix + "q": normal(heads * ratio, queries, dim, dtype=dtype),
        prefix + "k": normal(heads, tokens, dim, dtype=dtype),
        prefix + "v": normal(heads, tokens, dim, dtype=dtype),
    }


def changed(**arrays):
    return group() | arrays


def npz(arrays, save_as=np.savez):
    buffer = io.BytesIO()
    save_as(buffer, **arrays)
    return buffer.getvalue()


def members(**contents):
    """A zip of raw members, deflated."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name + ".npy", content)
    return buffer.getvalue()


def npy(shape, descr="<f4", content=b"", header=None):
    header = header or repr({"descr": descr, "fortran_order": False, "shape": shape})
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content


def safetensors(header, content=b""):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + content


def written(directory, content, suffix=".safetensors"):
    path = directory / f"dump{suffix}"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("dtype", ("f2", "f4", "f8"))
@pytest.mark.parametrize("suffix", (".safetensors", ".npz"))
def test_round_trip_of_both_formats(tmp_path, dtype, suffix):
    arrays = group(dtype=dtype) | {"mask": np.arange(4)}
    content = save(arrays) if suffix == ".safetensors" else npz(arrays, np.savez_compressed)
    loaded = load(written(tmp_path, content, suffix))
    assert (loaded.name, loaded.dim, len(loaded.heads)) == ("dump", 16, 2)
    assert loaded.sha256 == hashlib.sha256(content).hexdigest()
    for i, head in enumerate(loaded.heads):
        assert head.name == f"head {i}"
        assert head.k.dtype == np.float32
        np.testing.assert_array_equal(head.k, arrays["k"][i].astype("f4"))
        np.testing.assert_array_equal(head.v, arrays["v"][i].astype("f4"))
        np.testing.assert_array_equal(
            head.q, arrays["q"][3 * i : 3 * i + 3].reshape(60, 16).astype("f4")
        )


def test_npz_in_fortran_order_and_foreign_byte_order(tmp_path):
    arrays = group()
    stored = {name: np.asfortranarray(x.astype(">f8")) for name, x in arrays.items()}
    head = load(str(written(tmp_path, npz(stored), ".npz"))).heads[1]
    np.testing.assert_array_equal(head.k, arrays["k"][1])
    np.testing.assert_array_equal(head.v, arrays["v"][1])


def test_bfloat16_is_the_upper_half_of_a_float32(tmp_path):
    exact = {name: (x.view("u4") & 0xFFFF0000).view("f4") for name, x in group().items()}
    header, content = {}, b""
    for name, x in exact.items():
        upper = (x.view("u4") >> 16).astype("<u2").tobytes()
        header[name] = {
            "dtype": "BF16",
            "shape": x.shape,
            "data_offsets": [len(content), len(content) + len(upper)],
        }
        content += upper
    loaded = load(written(tmp_path, safetensors(header, content)))
    for i, head in enumerate(loaded.heads):
        np.testing.assert_array_equal(head.k, exact["k"][i])
        np.testing.assert_array_equal(head.q, exact["q"][3 * i : 3 * i + 3].reshape(60, 16))


def test_grouped_queries_meet_the_key_head_and_position_that_are_theirs(tmp_path):
    # Each query carries (layer, head, position) of its own, each key and value (layer, head).
    layers, heads, ratio, queries, tokens = 2, 3, 4, 30, 50
    q = np.zeros((layers, heads * ratio, queries, 16), "f4")
    k = np.zeros((layers, heads, tokens, 16), "f4")
    for layer in range(layers):
        for h in range(heads * ratio):
            q[layer, h, :, 0], q[layer, h, :, 1] = layer, h
            q[layer, h, :, 2] = np.arange(tokens - queries, tokens)
        for h in range(heads):
            k[layer, h, :, 0], k[layer, h, :, 1] = layer, h
            k[layer, h, :, 2] = np.arange(tokens)
    loaded = load(written(tmp_path, save({"q": q, "k": k, "v": k + 1})))
    assert len(loaded.heads) == 6
    for i, head in enumerate(loaded.heads):
        layer, h = divmod(i, heads)
        assert head.name == f"layer {layer}, head {h}"
        for place, x in enumerate((head.k, head.v)):
            assert set(x[:, 0]) == {layer + place}
            assert set(x[:, 1]) == {h + place}
        assert len(head.q) == ratio * queries
        assert set(head.q[:, 0]) == {layer}
        assert set(head.q[:, 1]) == set(range(h * ratio, (h + 1) * ratio))
        np.testing.assert_array_equal(head.q[:, 2], head.positions)
        sample = loaded.sample(i)
        np.testing.assert_array_equal(sample.q[:, 2], sample.positions)
        assert {int(x) // ratio for x in sample.q[:, 1]} == {h}


def test_sample_takes_late_queries_and_an_early_half_to_calibrate(tmp_path):
    loaded = load(written(tmp_path, save(group(queries=41, tokens=101))))
    for index in (0, 1, 2, -1):
        sample, head = loaded.sample(index), loaded.heads[index % 2]
        assert sample.q.dtype == sample.k.dtype == sample.v.dtype == np.float64
        assert sample.q.shape == (64, 16)
        assert sample.positions.min() == 60
        assert sample.positions.max() == 100
        assert len(set(sample.positions)) > 30
        np.testing.assert_array_equal(sample.k, head.k)
        np.testing.assert_array_equal(sample.v, head.v)
        np.testing.assert_array_equal(sample.calibration_k, head.k[:50])
        np.testing.assert_array_equal(sample.calibration_v, head.v[:50])
    one = load(written(tmp_path, save(group(queries=1, ratio=1)))).sample(0)
    assert one.q.shape == (1, 16)
    assert one.positions.tolist() == [19]
    full = load(written(tmp_path, save(group(tokens=20, queries=20, ratio=1)))).sample(0)
    assert full.positions.tolist() == list(range(10, 20))


def test_draw_takes_each_head(tmp_path):
    loaded = load(written(tmp_path, save(group(heads=3))))
    rng = np.random.default_rng(0)
    drawn = {loaded.draw(rng).k[0, 0] for _ in range(60)}
    assert drawn == {float(head.k[0, 0]) for head in loaded.heads}


def test_prefixes_are_groups_in_the_order_of_their_numbers(tmp_path):
    arrays = {}
    for layer, tokens in ((10, 17), (2, 20), (1, 33)):
        arrays |= group(heads=1, tokens=tokens, queries=16, prefix=f"layers.{layer}.")
    loaded = load(written(tmp_path, npz(arrays), ".npz"))
    assert [head.name for head in loaded.heads] == [
        f"layers.{layer}, head 0" for layer in (1, 2, 10)
    ]
    assert [len(head.k) for head in loaded.heads] == [33, 20, 17]


def test_two_dimensions_are_one_head(tmp_path):
    arrays = {"q": normal(4, 16), "k": normal(20, 16), "v": normal(20, 16)}
    (head,) = load(written(tmp_path, save(arrays))).heads
    np.testing.assert_array_equal(head.q, arrays["q"])
    assert head.positions.tolist() == [16, 17, 18, 19]


def test_shipped_tensors_load_and_are_what_their_readme_says():
    data = resources.files("kvassay.conformance") / "data"
    content = (data / tensors.SHIPPED).read_bytes()
    assert len(content) <= 2_000_000
    loaded = shipped()
    assert (loaded.name, loaded.dim, len(loaded.heads)) == ("smollm2-135m-qkv", 64, 15)
    readme = (data / "README.md").read_text()
    assert loaded.sha256 in readme
    assert f"{len(content):,} bytes" in readme
    assert [head.name for head in loaded.heads[2:5]] == [
        "layers.0, head 2",
        "layers.7, head 0",
        "layers.7, head 1",
    ]
    for head in loaded.heads:
        assert head.k.shape == head.v.shape == (256, 64)
        assert head.q.shape == (3 * 128, 64)
        assert head.positions.tolist() == 3 * list(range(128, 256))
        energies = np.linalg.svd(head.k, compute_uv=False) ** 2
        assert np.sum(energies) ** 2 / np.sum(energies**2) < 16  # far from isotropic


def test_shipped_tokens_are_the_same_tokens_in_all_heads():
    # In layer 0 a value depends on its token alone, and so do the norms of keys and queries,
    # which RoPE keeps. Heads and tokens interleaved, as in the source, cannot pass.
    layer = shipped().heads[:3]
    equal = [np.all(head.v[:, None] == head.v[None], axis=2) for head in layer]
    assert equal[0].sum() > 2 * 256
    for head, same in zip(layer, equal, strict=True):
        np.testing.assert_array_equal(same, equal[0])
        first, second = np.nonzero(same)
        norms = np.linalg.norm(head.k, axis=1)
        np.testing.assert_allclose(norms[first], norms[second], rtol=2e-3)
        first, second = np.nonzero(same[128:, 128:])
        for queries in head.q.reshape(3, 128, 64):
            norms = np.linalg.norm(queries, axis=1)
            np.testing.assert_allclose(norms[first], norms[second], rtol=2e-3)


WHOLE = "'q' must be a whole array as numpy.savez writes it, got "
KINDS = "must be float16, bfloat16 (in .safetensors), float32 or float64, got"
SHAPES = "must have shape (tokens, d), (heads, tokens, d) or (layers, heads, tokens, d), none"


def with_value(value, letter="k"):
    arrays = group()
    arrays[letter][1, 2, 3] = value
    return save(arrays)


def flipped(content, at):
    """With a bit of a member's data changed, which only the CRC can see."""
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def lying_size(content):
    """A member whose directory entry declares 2^40 bytes more than it holds."""
    at = content.rindex(b"PK\x01\x02")
    return content[: at + 24] + struct.pack("<I", 0xFFFFFF00) + content[at + 28 :]


BAD = {
    "empty": (".safetensors", b"", "must be a whole safetensors file, got Error"),
    "text": (".safetensors", b"<!DOCTYPE html>" * 9, "must be a whole safetensors file"),
    "truncated": (".safetensors", save(group())[:-9], "must be a whole safetensors file"),
    "header-2^62": (".safetensors", struct.pack("<Q", 1 << 62), "must be a whole safetensors"),
    "header-deep": (".safetensors", safetensors(b'{"a":' * 99_999), "must be a whole safetens"),
    "header-utf8": (".safetensors", safetensors(b"\xff\xfe"), "must be a whole safetensors"),
    "overflow": (
        ".safetensors",
        safetensors({"q": {"dtype": "F32", "shape": [1 << 60, 1 << 60], "data_offsets": [0, 4]}}),
        "must be a whole safetensors file",
    ),
    "negative": (
        ".safetensors",
        safetensors({"q": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}}, b"0" * 16),
        "must be a whole safetensors file",
    ),
    "no-tensors": (".safetensors", save({}), "must hold tensors named q, k, v or PREFIX.q"),
    "other-names": (
        ".safetensors",
        save({"\x1b[31mkeys": normal(2, 2)}),
        "must hold tensors named q, k, v or PREFIX.q, .k, .v, got '\\x1b[31mkeys'",
    ),
    "no-k": (
        ".safetensors",
        save({"layers.7.q": normal(20, 16), "layers.7.v": normal(20, 16)}),
        "must hold a tensor 'layers.7.k', got only q, v of that prefix",
    ),
    "no-q": (
        ".safetensors",
        save(group() | {"b.k": normal(20, 16)}),
        "must hold a tensor 'b.q', got only k of that prefix",
    ),
    "long-name": (
        ".safetensors",
        save({"x" * 9999 + ".q": normal(20, 16)}),
        "must hold a tensor 'xxx",
    ),
    "huge-number": (".safetensors", save({"9" * 9999 + ".q": normal(20, 16)}), "must hold a t"),
    "v-shape": (
        ".safetensors",
        save(changed(v=normal(2, 19, 16))),
        "'v' must have the shape (2, 20, 16) of 'k', got (2, 19, 16)",
    ),
    "q-dim": (
        ".safetensors",
        save(changed(q=normal(6, 20, 17))),
        "'q' must have the d and the layers of 'k', (2, 20, 16), got (6, 20, 17)",
    ),
    "q-layers": (
        ".safetensors",
        save(changed(q=normal(2, 6, 20, 16))),
        "'q' must have the d and the layers of 'k', (2, 20, 16), got (2, 6, 20, 16)",
    ),
    "q-heads": (
        ".safetensors",
        save(changed(q=normal(5, 20, 16))),
        "'q' must have a multiple of the 2 heads of 'k', got 5",
    ),
    "q-long": (
        ".safetensors",
        save(changed(q=normal(6, 21, 16))),
        "'q' must have at most the 20 tokens of 'k', got 21",
    ),
    "one-dimension": (".safetensors", save(changed(k=normal(640))), f"'k' {SHAPES}"),
    "no-heads": (".safetensors", save(changed(q=normal(0, 20, 16))), f"'q' {SHAPES}"),
    "dim-15": (".safetensors", save(group(dim=15)), "'k' must have d in 16..8192, got d = 15"),
    "dim-8193": (".safetensors", save(group(dim=8193, tokens=16, ratio=1)), "'k' must have d in"),
    "tokens-15": (
        ".safetensors",
        save(group(queries=1, tokens=15)),
        "'k' must have at least 16 tokens, got 15 in shape (2, 15, 16)",
    ),
    "two-dims": (
        ".safetensors",
        save(group(prefix="a.") | group(dim=32, prefix="b.")),
        "'b.k' must have d = 16 as the first, got 32",
    ),
    "nan": (
        ".safetensors",
        with_value(np.nan),
        "'k' must be finite in float32, got NaN or infinity at (1, 2, 3)",
    ),
    "infinity": (".safetensors", with_value(-np.inf, "v"), "'v' must be finite in float32"),
    "float64-overflow": (
        ".safetensors",
        save({name: x.astype("f8") * 1e300 for name, x in group().items()}),
        "'k' must be finite in float32",
    ),
    "integers": (".safetensors", save(changed(k=np.ones((2, 20, 16), "i4"))), f"'k' {KINDS} I32"),
    "float8": (
        ".safetensors",
        safetensors(
            {
                name: {
                    "dtype": "F8_E4M3",
                    "shape": [20, 16],
                    "data_offsets": [i * 320, i * 320 + 320],
                }
                for i, name in enumerate("qkv")
            },
            bytes(960),
        ),
        f"{KINDS} F8_E4M3",
    ),
    "npz-empty": (".npz", b"", "must be a whole npz file, got File is not a zip file"),
    "npz-text": (".npz", b"hello" * 99, "must be a whole npz file"),
    "npz-truncated": (".npz", npz(group())[:-30], "must be a whole npz file"),
    "npz-is-npy": (".npz", npy((1,), content=b"0000"), "must be a whole npz file"),
    "npz-pickle": (
        ".npz",
        npz(changed(k=np.array([{}, print], dtype=object))),
        "'k' must hold numbers, got pickled objects, never loaded",
    ),
    "npz-integers": (".npz", npz(changed(k=np.ones((2, 20, 16), "i8"))), f"'k' {KINDS} int64"),
    "npz-complex": (".npz", npz(changed(k=np.ones((2, 20, 16), "c8"))), f"'k' {KINDS} complex64"),
    "npz-longdouble": (".npz", npz(changed(k=np.ones((2, 20, 16), "g"))), f"'k' {KINDS} "),
    "npz-records": (".npz", npz(changed(k=np.ones((2, 20), "f4,f4"))), f"'k' {KINDS} "),
    "npz-nan": (".npz", npz(changed(v=np.full((2, 20, 16), np.nan))), "'v' must be finite"),
    "npz-not-npy": (".npz", members(q=b"hello"), WHOLE),
    "npz-huge-shape": (".npz", members(q=npy((1 << 50, 16))), f"{WHOLE}0 bytes for float32"),
    "npz-negative": (".npz", members(q=npy((-1, -16))), WHOLE),
    "npz-deep-header": (".npz", members(q=npy((1,), header="-" * 9000 + "1")), WHOLE),
    "npz-long-header": (".npz", members(q=npy((1,), header=" " * 60_000)), WHOLE),
    "npz-version-9": (".npz", members(q=b"\x93NUMPY\x09\x00" + bytes(99)), WHOLE),
    "npz-flipped-bit": (".npz", flipped(npz(group()), 300), f"{WHOLE}Bad CRC-32"),
    "npz-flipped-late": (
        ".npz",
        flipped(npz(group(tokens=600)), 100_000),
        "savez writes it, got Bad CRC-32",
    ),
    "npz-lying-size": (".npz", lying_size(npz({"q": normal(20, 16)})), WHOLE),
    "suffix": (".pt", b"", "must end in .safetensors or .npz, got '.pt'"),
}


@pytest.mark.parametrize(("suffix", "content", "sentence"), BAD.values(), ids=BAD)
def test_bad_files_are_refused_in_one_sentence(tmp_path, suffix, content, sentence):
    path = written(tmp_path, content, suffix)
    with pytest.raises(ValueError, match="must") as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert sentence in message
    assert message.isprintable()
    assert len(message) < len(str(path)) + 400


def test_bzip2_members_are_refused_before_they_are_inflated(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("q.npy", npy((20, 16), content=bytes(1280)))
    with pytest.raises(ValueError, match="savez writes it, got zip compression 12"):
        load(written(tmp_path, buffer.getvalue(), ".npz"))


@pytest.mark.parametrize("suffix", (".safetensors", ".npz"))
def test_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"sparse{suffix}"
    with path.open("wb") as file:
        file.truncate(tensors.MAX_BYTES + 1)
    with pytest.raises(ValueError, match="must be at most 16 GiB, got 17179869185 bytes"):
        load(path)
    # A zip of few bytes may declare many; float16 doubles.
    arrays = {name: np.zeros((500, 16), "f2") for name in "qkv"}
    content = npz(arrays, np.savez_compressed)
    monkeypatch.setattr(tensors, "MAX_BYTES", 4 * 3 * 500 * 16 - 1)
    content = content if suffix == ".npz" else save(arrays)
    with pytest.raises(ValueError, match="must hold at most 16 GiB of q, k, v in float32, got 96"):
        load(written(tmp_path, content, suffix))
    monkeypatch.setattr(tensors, "MAX_BYTES", 4 * 3 * 500 * 16)
    assert len(load(written(tmp_path, content, suffix)).heads) == 1


def test_paths_that_are_no_files_are_refused(tmp_path):
    (tmp_path / "folder.npz").mkdir()
    for name, found in (
        ("folder.npz", "a directory or a device"),
        ("missing.npz", "nothing at that path"),
        ("x" * 5000 + ".npz", "File name too long"),
    ):
        with pytest.raises(ValueError, match=f"must be .*, got .*{found}"):
            load(tmp_path / name)
