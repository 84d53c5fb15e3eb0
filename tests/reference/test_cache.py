"""The reference cache against the plainest cache there is: a list of tokens for each row."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kvassay.reference import attention
from kvassay.reference.cache import Cache, Half
from kvassay.reference.codecs import codec
from kvassay.reference.designed import designed
from kvassay.reference.designs import Design

DIM, HEADS, FIRST, LAST, GROUP = 16, 2, 2, 3, 4
CODECS = {
    "mse": lambda dim: codec("turboquant-mse", dim, 3, seed=1),
    "prod": lambda dim: codec("turboquant-prod", dim, 3, seed=1),
    "scalar": lambda dim: codec("scalar", dim, 8, seed=1),
}


def cache(k="mse", v="scalar", along_tokens=False, first=FIRST, last=LAST, group=GROUP):
    half = Half(CODECS[k](group if along_tokens else DIM), along_tokens)
    return Cache(half, Half(CODECS[v](DIM)), DIM, HEADS, first, last, group)


def tokens(count, rows=1, seed=0):
    return np.random.default_rng(seed).standard_normal((2, rows, HEADS, count, DIM), np.float32)


def settled(count):
    return max(count - FIRST - LAST, 0) // GROUP * GROUP


@pytest.mark.parametrize("count", [0, 1, 3, 5, 8, 9, 10, 13, 40])
@pytest.mark.parametrize("along_tokens", [False, True])
@pytest.mark.parametrize(("k", "v"), [("mse", "scalar"), ("prod", "mse")])
def test_settled_tokens_are_what_the_codec_makes_of_them_and_others_are_exact(
    k, v, along_tokens, count
):
    made, x = cache(k, v, along_tokens), tokens(count)
    made.append(*x)
    end = FIRST + settled(count)
    for half, read, exact in zip(made.halves, made.read(), x, strict=True):
        expected = exact[0].astype(np.float64)
        if settled(count):
            middle = expected[:, FIRST:end].swapaxes(0, 1)
            coded = half.encode(middle.astype(np.float32), GROUP)
            expected[:, FIRST:end] = half.decode(coded, HEADS, DIM, GROUP).swapaxes(0, 1)
            assert not np.array_equal(expected, exact[0])
        np.testing.assert_array_equal(read[0], expected)


def test_along_tokens_a_channel_of_a_group_is_one_vector():
    made, x = cache(along_tokens=True, first=0, last=0), tokens(GROUP)
    made.append(*x)
    codec = made.halves[0].codec
    for head in range(HEADS):
        channels = codec.decode(codec.encode(x[0, 0, head].T))
        np.testing.assert_allclose(made.read()[0][0, head], channels.T, rtol=1e-12)


@pytest.mark.parametrize("groups", [1, 4, 7])
def test_attend_is_attention_over_what_is_read(groups):
    made, x = cache(), tokens(21, rows=2)
    made.append(*x)
    q = np.random.default_rng(3).standard_normal((2, groups * HEADS, 5, DIM))
    out = made.attend(q)
    k, v = made.read()
    for row in range(2):
        for head in range(groups * HEADS):
            for i in range(5):
                seen = 21 - 5 + i + 1
                key, value = (each[row, head // groups, :seen] for each in (k, v))
                scores = key @ q[row, head, i] / np.sqrt(DIM)
                weights = np.exp(scores - scores.max())
                expected = weights @ value / weights.sum()
                np.testing.assert_allclose(out[row, head, i], expected, rtol=1e-10, atol=1e-12)


def test_a_further_group_takes_the_bytes_of_its_codes():
    """3 bits a coordinate of K and 8 of V, and a float32 norm for each."""
    made = cache()
    sizes = []
    for seed in range(12):
        made.append(*tokens(GROUP, seed=seed))
        sizes.append(made.nbytes())
    vectors = GROUP * HEADS
    norms = sum(half.codec.encode(np.ones((1, DIM))).nbytes for half in made.halves)
    assert sizes[0] == 2 * vectors * DIM * 4  # all exact, in float32
    assert set(np.diff(sizes[3:])) == {vectors * norms}
    assert norms <= DIM * (3 + 8) / 8 + 2 * 8


def test_what_it_cannot_do_is_refused():
    made = cache()
    with pytest.raises(ValueError, match="no rows before the first append"):
        made.read()
    made.append(*tokens(20, rows=2))
    k, v = tokens(3, rows=2)
    for wrong, words in [
        ((k, v[:, :, :2]), "the shape"),
        ((k[:1], v[:1]), "must have 2 rows"),
        ((k[:, :1], v[:, :1]), "2 heads of dimension 16"),
        ((k * np.nan, v), "finite"),
        ((k.astype(int), v), "floating point"),
    ]:
        with pytest.raises(ValueError, match=words):
            made.append(*wrong)
    with pytest.raises(ValueError, match="must not cut a settled group"):
        made.crop(FIRST + 1)
    for refused in (21, -1):
        with pytest.raises(ValueError, match="length"):
            made.crop(refused)
    for rows in ([], [2], [-1]):
        with pytest.raises(ValueError, match="rows"):
            made.select(rows)
    with pytest.raises(ValueError, match="q must have"):
        made.attend(np.zeros((1, 2, 1, DIM)))
    assert len(made) == 20  # a refusal changes nothing


def test_codes_of_a_design_can_be_joined_and_cut():
    unit = designed("turboquant-mse", DIM, 3, 1, Design(scale="unit"))
    made = Cache(Half(unit), Half(CODECS["mse"](DIM)), DIM, HEADS)
    made.append(*tokens(9))
    before = made.read()
    made.crop(4)
    for read, whole in zip(made.read(), before, strict=True):
        np.testing.assert_array_equal(read, whole[:, :, :4])


@pytest.mark.parametrize("length", [0, FIRST])
def test_what_was_cropped_leaves_no_trace(length):
    made, x = cache(), tokens(30)
    made.append(*x)
    made.crop(length)
    made.append(*x[:, :, :, length:])
    fresh = cache()
    fresh.append(*x)
    for read, expected in zip(made.read(), fresh.read(), strict=True):
        np.testing.assert_array_equal(read, expected)
    assert made.nbytes() == fresh.nbytes()


class Histories(RuleBasedStateMachine):
    """Any history of append, crop, select and fork gives the cache that one append of the tokens
    that are left gives, as far as a crop leaves it the choice.

    A crop leaves fewer than `last` exact tokens, so how many have settled is kept for each
    cache beside its tokens.
    """

    @initialize(rows=st.integers(1, 3), along_tokens=st.booleans())
    def begin(self, rows, along_tokens):
        self.along_tokens, self.count = along_tokens, 0
        first = cache(along_tokens=along_tokens)
        nothing = tokens(0, rows)
        first.append(*nothing)
        self.caches, self.lists, self.settled = [first], [nothing], [0]

    @rule(which=st.integers(0, 3), length=st.sampled_from([0, 1, 2, GROUP - 1, GROUP, 9, 17]))
    def append(self, which, length):
        which %= len(self.caches)
        self.count += 1
        held = self.lists[which]
        more = tokens(length, held.shape[1], self.count)
        self.caches[which].append(*more)
        self.lists[which] = np.concatenate([held, more], axis=3)
        self.settled[which] = max(self.settled[which], settled(self.lists[which].shape[3]))
        self.same()

    @rule(which=st.integers(0, 3), share=st.sampled_from([0, 0, 0.3, 0.6, 0.9, 1]))
    def crop(self, which, share):
        which %= len(self.caches)
        length = round(share * self.lists[which].shape[3])
        behind, there = max(length - FIRST, 0), self.settled[which]
        if behind < there and behind % GROUP:
            with pytest.raises(ValueError, match="settled group"):
                self.caches[which].crop(length)
        else:
            self.caches[which].crop(length)
            self.lists[which] = self.lists[which][:, :, :, :length]
            self.settled[which] = min(there, behind)
        self.same()

    @rule(which=st.integers(0, 3), rows=st.lists(st.integers(0, 2), min_size=1, max_size=3))
    def select(self, which, rows):
        which %= len(self.caches)
        rows = [row % self.lists[which].shape[1] for row in rows]
        self.caches[which].select(rows)
        self.lists[which] = self.lists[which][:, rows]
        self.same()

    @precondition(lambda self: len(self.caches) < 4)
    @rule(which=st.integers(0, 3))
    def fork(self, which):
        which %= len(self.caches)
        self.caches.append(self.caches[which].fork())
        self.lists.append(self.lists[which])
        self.settled.append(self.settled[which])
        self.same()

    def same(self):
        """All caches, not only the one that was just changed: a fork must not be seen by others."""
        for made, held, there in zip(self.caches, self.lists, self.settled, strict=True):
            assert len(made) == held.shape[3]
            end = FIRST + there
            for half, read, exact in zip(made.halves, made.read(), held, strict=True):
                expected = exact.astype(np.float64)
                for row in expected if there else ():
                    middle = row[:, FIRST:end].swapaxes(0, 1)
                    code = half.encode(middle.astype(np.float32), GROUP)
                    row[:, FIRST:end] = half.decode(code, HEADS, DIM, GROUP).swapaxes(0, 1)
                np.testing.assert_allclose(read, expected, rtol=1e-9, atol=1e-9)


Histories.TestCase.settings = settings(
    max_examples=60, stateful_step_count=20, deadline=None, derandomize=True
)
TestHistories = Histories.TestCase


def test_where_all_tokens_are_exact_so_is_attention():
    made, x = cache(first=50), tokens(30)
    made.append(*x)
    q = np.random.default_rng(5).standard_normal((1, 4 * HEADS, 2, DIM))
    expected = attention.grouped(q[0], x[0, 0], x[1, 0], causal=True)
    np.testing.assert_allclose(made.attend(q)[0], expected, rtol=1e-6, atol=1e-7)
