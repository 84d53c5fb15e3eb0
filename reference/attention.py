"""Softmax attention, and how the errors of a quantized cache are measured in it.

Weights travel as their natural logarithms, and a key that a query does not see weighs -inf.
Errors come in two kinds at three places: scale (SNR in dB) and direction (angle / pi), of
the K cache, the V cache and the attention output T (paper A, "6-D error"). Functions of
(x, x_hat) take two arrays (N, d) of any floating dtype, finite, N at least 1, and refuse
others with ValueError; those of (log_p, log_q) take two arrays (M, N) of log weights, each
row with total weight 1, p of the exact keys and q of the quantized ones.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvassay.reference._checks import require_integer, require_vectors
from kvassay.reference.codecs import normalize
from kvassay.reference.sphere import Array


def scores(q: ArrayLike, k: ArrayLike) -> Array:
    """q k^T / sqrt(d): queries (M, d) and keys (N, d), finite, give (M, N). ValueError else.

    (Paper A, "Jensen's inequality and softmax"; QJL, section 2.)
    """
    q = _rows("q", q)
    k = _rows("k", k, q.shape[1])
    return np.asarray(q @ k.T / np.sqrt(q.shape[1]))


def log_softmax(s: ArrayLike, positions: ArrayLike | None = None) -> Array:
    """Log weights of the scores `s`, (M, N) finite with N at least 1, as (M, N) in nats.

    If `positions`, (M,) integers in 0..N-1, is given, query i sees the keys 0..positions[i]
    and no others. The largest score is taken off first, so no magnitude overflows and the
    error of each row's total weight stays at rounding. ValueError for anything else.

    >>> np.exp(log_softmax([[1e9, 1e9, 2e9]], positions=[1])).round(12).tolist()
    [[0.5, 0.5, 0.0]]
    """
    s = _rows("s", s)
    count = s.shape[1]
    if positions is not None:
        s = np.where(np.arange(count) <= _positions(positions, *s.shape)[:, None], s, -np.inf)
    with np.errstate(over="ignore"):  # a weight under exp(-1.8e308) is 0, log and all
        shifted = s - s.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True)))


def attend(q: ArrayLike, k: ArrayLike, v: ArrayLike, positions: ArrayLike | None = None) -> Array:
    """Output (M, d) of one head: the mean of the values under the weights of each query.

    `q` (M, d), `k` and `v` (N, d), finite; `positions` as in `log_softmax`. ValueError else.
    (Paper A, "K-V asymmetry": V enters linearly, K through exp.)
    """
    k = _rows("k", k)
    v = _rows("v", v, k.shape[1])
    _same("v", v.shape, "k", k.shape)
    return np.asarray(np.exp(log_softmax(scores(q, k), positions)) @ v)


def grouped(q: ArrayLike, k: ArrayLike, v: ArrayLike, causal: bool = False) -> Array:
    """Grouped-query attention: `q` (H, M, d), `k` and `v` (H_kv, N, d) give (H, M, d).

    H is a multiple of H_kv, and query head h reads kv head h // (H / H_kv): neighbours
    share. If `causal`, the queries are the last M of the N tokens, so query i stands at
    position N - M + i and sees the keys up to there. ValueError for other shapes or values.
    """
    q, k, v = np.asarray(q), np.asarray(k), np.asarray(v)
    for name, value in (("q", q), ("k", k), ("v", v)):
        if value.ndim != 3 or len(value) == 0:
            raise ValueError(f"{name} must have shape (heads, tokens, d), got {value.shape}")
    _same("v", v.shape, "k", k.shape)
    if len(q) % len(k):
        raise ValueError(f"q must have a multiple of {len(k)} heads, got {len(q)}")
    queries, keys = q.shape[1], k.shape[1]
    if causal and queries > keys:
        raise ValueError(f"q must have at most {keys} tokens when causal, got {queries}")
    positions = np.arange(keys - queries, keys) if causal else None
    share = len(q) // len(k)
    return np.stack([attend(q[h], k[h // share], v[h // share], positions) for h in range(len(q))])


def kl_divergence(log_p: ArrayLike, log_q: ArrayLike) -> Array:
    """KL(p || q) = sum p (log p - log q) of each row, (M,), in nats.

    With e = log q - log p and sum p expm1(e) = sum q - sum p = 0 this is the sum of
    p (expm1(e) - e), in which no term is negative: nothing cancels however alike p and q
    are, and a total weight that is off by a factor 1 + c adds c^2/2 instead of c. A key
    that weighs 0 in both adds 0, one that weighs 0 in q alone makes it infinite.

    For small score errors it is half their variance under p (paper A, "KL divergence").

    >>> log_p = np.log([[0.5, 0.5]])
    >>> log_q = log_softmax(log_p + [[1e-7, -1e-7]])  # variance 1e-14
    >>> print(f"{kl_divergence(log_p, log_q)[0]:.4e}")
    5.0000e-15
    """
    log_p, log_q = _weights(log_p, log_q)
    p, seen = np.exp(log_p), log_p > -np.inf
    error = np.subtract(log_q, log_p, out=np.zeros_like(log_p), where=seen)
    # expm1 overflows where q dwarfs p; there p expm1(e) is q - p, with nothing to lose
    growth = np.where(error < 1, p * np.expm1(np.minimum(error, 1)), np.exp(log_q) - p)
    lost = np.isneginf(error)
    terms = np.where(seen, growth - p * np.where(lost, 0.0, error), np.exp(log_q))
    return np.asarray(np.sum(np.where(lost, np.inf, terms), axis=1))


def top_recall(log_p: ArrayLike, log_q: ArrayLike, count: int = 5) -> Array:
    """Share of the `count` largest weights of p that are among the `count` largest of q, (M,).

    Where fewer than `count` keys are visible, all those. Of equal weights the earlier key
    ranks first. ValueError if `count` is below 1. (Paper A, "top-5 routing recall".)

    >>> top_recall(np.log([[0.4, 0.3, 0.2, 0.1]]), np.log([[0.4, 0.2, 0.1, 0.3]]), 2).tolist()
    [0.5]
    """
    require_integer("count", count, 1)
    log_p, log_q = _weights(log_p, log_q)
    best_p, best_q = (np.argsort(-w, axis=1, kind="stable")[:, :count] for w in (log_p, log_q))
    wanted = np.take_along_axis(log_p, best_p, axis=1) > -np.inf
    kept = np.take_along_axis(log_q, best_p, axis=1) > -np.inf
    kept &= np.any(best_p[:, :, None] == best_q[:, None, :], axis=2)
    return np.asarray(np.sum(wanted & kept, axis=1) / np.sum(wanted, axis=1))


def argmax_shifts(log_p: ArrayLike, log_q: ArrayLike) -> NDArray[np.bool_]:
    """Whether the dominant key of each query changes, (M,). A tie goes to the earlier key.

    (Paper A, "argmax shift": what a mean KL hides.)
    """
    log_p, log_q = _weights(log_p, log_q)
    return np.asarray(np.argmax(log_p, axis=1) != np.argmax(log_q, axis=1))


def relative_mse(x: ArrayLike, x_hat: ArrayLike) -> float:
    """sum |x - x_hat|^2 / sum |x|^2 over all rows: 0 without error, infinite if x alone is zero.

    (Paper B, "relMSE".)

    >>> relative_mse([[2.0, 0.0]], [[2.0, 1.0]])
    0.25
    """
    x, x_hat = _pair(x, x_hat)
    largest = max(np.max(np.abs(x)), np.max(np.abs(x_hat)))
    exponent = -np.frexp(largest)[1]  # keeps the squares in range, and is exact
    noise = np.sum((np.ldexp(x, exponent) - np.ldexp(x_hat, exponent)) ** 2)
    signal = np.sum(np.ldexp(x, exponent) ** 2)
    if noise == 0:
        return 0.0
    return float(noise / signal) if signal else np.inf


def snr_db(x: ArrayLike, x_hat: ArrayLike) -> float:
    """-10 log10 of `relative_mse`, in dB; infinite without error. (Paper A, scale of 6-D.)

    >>> round(snr_db([[1.0, 0.0]], [[0.9, 0.0]]), 12)
    20.0
    """
    ratio = relative_mse(x, x_hat)
    return -10 * float(np.log10(ratio)) if ratio else np.inf


def direction_error(x: ArrayLike, x_hat: ArrayLike) -> float:
    """phi: the mean over rows of the angle between x and x_hat, over pi; in 0..1.

    A zero row has no direction: against another vector it counts 1/2, as one at right
    angles would, and two zero rows count 0. (Paper A, direction of 6-D.)

    >>> direction_error([[1.0, 0.0], [1.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]])
    0.375
    """
    return float(np.mean(_angles(x, x_hat)) / np.pi)


def cosine_error(x: ArrayLike, x_hat: ArrayLike) -> float:
    """1 - the mean over rows of the cosine between x and x_hat; in 0..2.

    Taken as 2 sin^2(angle / 2), so that small errors keep their digits. Zero rows as in
    `direction_error`: cosine 0 against another vector, 1 against each other. (Paper B,
    "direction error (cosine similarity)".)

    >>> round(cosine_error([[1.0, 0.0]], [[0.6, 0.8]]), 12)
    0.4
    """
    return float(np.mean(2 * np.sin(_angles(x, x_hat) / 2) ** 2))


def squared_distance(x: ArrayLike, x_hat: ArrayLike) -> float:
    """d^2 = relative_mse^2 + cosine_error^2, paper B's 2-D metric as we read it.

    The summary of paper B that we have says only that d^2 joins relMSE and cosine
    similarity. We take the squared distance from the perfect point (0, 0) in the plane of
    relMSE and cosine error.
    """
    return relative_mse(x, x_hat) ** 2 + cosine_error(x, x_hat) ** 2


def six_dimensional_error(
    k: ArrayLike, k_hat: ArrayLike, v: ArrayLike, v_hat: ArrayLike, t: ArrayLike, t_hat: ArrayLike
) -> Array:
    """Paper A's 6-D error, (6,): SNR in dB of K, V and T, then phi of K, V and T.

    Each pair is (N, d) of its own N and d. An SNR is infinite where there is no error.
    """
    places = ((k, k_hat), (v, v_hat), (t, t_hat))
    return np.array([measure(*pair) for measure in (snr_db, direction_error) for pair in places])


def _angles(x: ArrayLike, x_hat: ArrayLike) -> Array:
    x, x_hat = _pair(x, x_hat)
    u, w = normalize(x)[0], normalize(x_hat)[0]
    # Kahan: exact to rounding at 0 and at pi; against a zero row it is pi/2
    angles = 2 * np.arctan2(np.linalg.norm(u - w, axis=1), np.linalg.norm(u + w, axis=1))
    return np.asarray(angles)


def _rows(name: str, value: ArrayLike, dim: int | None = None) -> Array:
    array = np.asarray(value)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} must be a matrix with at least one column, got {array.shape}")
    return require_vectors(name, array, array.shape[1] if dim is None else dim)


def _pair(x: ArrayLike, x_hat: ArrayLike) -> tuple[Array, Array]:
    x, x_hat = _rows("x", x), _rows("x_hat", x_hat)
    _same("x_hat", x_hat.shape, "x", x.shape)
    if len(x) == 0:
        raise ValueError("x must have at least one row, got 0")
    return x, x_hat


def _weights(log_p: ArrayLike, log_q: ArrayLike) -> tuple[Array, Array]:
    both = np.asarray(log_p, dtype=np.float64), np.asarray(log_q, dtype=np.float64)
    for name, value in zip(("log_p", "log_q"), both, strict=True):
        if value.ndim != 2:
            raise ValueError(f"{name} must have shape (M, N), got {value.shape}")
        with np.errstate(over="ignore"):
            totals = np.exp(value).sum(axis=1)
        if (off := ~(np.abs(totals - 1) < 1e-6)).any():
            raise ValueError(f"{name} must have rows of total weight 1, got {totals[off][0]}")
    _same("log_q", both[1].shape, "log_p", both[0].shape)
    return both


def _same(name: str, shape: tuple[int, ...], other: str, expected: tuple[int, ...]) -> None:
    if shape != expected:
        raise ValueError(f"{name} must have the shape {expected} of {other}, got {shape}")


def _positions(positions: ArrayLike, queries: int, keys: int) -> NDArray[np.integer]:
    array = np.asarray(positions)
    if array.dtype.kind not in "iu" or array.shape != (queries,):
        raise ValueError(
            f"positions must be {queries} integers, got shape {array.shape} of {array.dtype}"
        )
    if (outside := (array < 0) | (array >= keys)).any():
        raise ValueError(f"positions must be in 0..{keys - 1}, got {array[outside][0]}")
    return array
