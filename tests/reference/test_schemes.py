import pytest

from kvassay.reference.schemes import LETTERS, PREFIXES, SPECTRAL, TURBOQUANT, Half, scheme

MSE, PROD = "turboquant-mse", "turboquant-prod"


@pytest.mark.parametrize(
    ("name", "k", "v"),
    [
        ("KV", "scalar", "scalar"),
        ("TQ-KV", MSE, MSE),
        ("KQV", MSE, f"{PROD}/orthogonal"),
        ("QKQV", f"{PROD}/orthogonal", f"{PROD}/orthogonal"),
        ("TQ-QKV", f"{PROD}/orthogonal", MSE),
        ("Plain-QKV", "scalar-prod/orthogonal", "scalar"),
        ("SQU-KV", "spectral/uniform", "spectral/uniform"),
        ("SQW-KQV", "spectral/water-filling", "spectral/water-filling/orthogonal"),
    ],
)
def test_a_scheme_is_the_pair_that_the_papers_mean(name, k, v):
    made = scheme(name)
    assert (str(made.k), str(made.v)) == (k, v)


def test_names_of_both_papers_mean_the_same_pair():
    for short, full in (("KV", "Plain-KV"), ("KQV", "TQ-KQV"), ("QKQV", "TQ-QKQV")):
        assert (scheme(short).k, scheme(short).v) == (scheme(full).k, scheme(full).v)


def test_eight_variants_and_eight_spectral_ones_differ():
    for names in (TURBOQUANT, SPECTRAL):
        assert len({(scheme(name).k, scheme(name).v) for name in names}) == 8
    assert len(PREFIXES) * len(LETTERS) == 16


def test_calibrated_together_concerns_spectral_codecs_alone():
    assert scheme("SQU-KV", together=True).v == Half("spectral", "", "uniform", True)
    assert scheme("TQ-KV", together=True) == scheme("TQ-KV")


@pytest.mark.parametrize("name", ["", "VK", "TQ", "TQ-", "TQ-KK", "KV-TQ", "XX-KV", "QKV"])
def test_an_unknown_scheme_is_refused(name):
    with pytest.raises(ValueError, match="scheme must be KV, KQV, QKQV or one of Plain, TQ"):
        scheme(name)
    with pytest.raises(ValueError, match="sketch must be one of"):
        scheme("KQV", "sparse")
