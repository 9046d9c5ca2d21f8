"""Distributions of random numbers: Kolmogorov-Smirnov and chi-square tests against SciPy's."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pygpukit as gp
from pygpukit.random import Generator, RandomState, default_rng

COUNT = 40_000
# A right sampler fails each test with this probability; the seeds are fixed.
LEAST = 1e-4

CONTINUOUS: dict[str, tuple[Callable[[Generator, int], Any], Any]] = {
    "gamma 2.5": (lambda r, n: r.gamma(2.5, 2.0, n, "float64"), st.gamma(2.5, scale=2.0)),
    "gamma 1": (lambda r, n: r.gamma(1.0, 1.0, n), st.gamma(1.0)),
    "gamma 0.3": (lambda r, n: r.standard_gamma(0.3, n, "float64"), st.gamma(0.3)),
    "gamma 0.01": (lambda r, n: gp.log(r.gamma(0.01, 1.0, n, "float64") + 1e-300),
                   st.loggamma(0.01)),
    "gamma 500": (lambda r, n: r.gamma(500.0, 1.0, n), st.gamma(500.0)),
    "chisquare": (lambda r, n: r.chisquare(3.0, n), st.chi2(3.0)),
    "noncentral_chisquare": (lambda r, n: r.noncentral_chisquare(0.7, 4.0, n), st.ncx2(0.7, 4.0)),
    "f": (lambda r, n: r.f(5.0, 9.0, n), st.f(5.0, 9.0)),
    "standard_t": (lambda r, n: r.standard_t(4.0, n), st.t(4.0)),
    "beta": (lambda r, n: r.beta(2.0, 5.0, n), st.beta(2.0, 5.0)),
    "beta small": (lambda r, n: r.beta(0.05, 3.0, n, "float64"), st.beta(0.05, 3.0)),
    "laplace": (lambda r, n: r.laplace(1.0, 2.0, n), st.laplace(1.0, 2.0)),
    "gumbel": (lambda r, n: r.gumbel(1.0, 2.0, n), st.gumbel_r(1.0, 2.0)),
    "logistic": (lambda r, n: r.logistic(-1.0, 0.5, n), st.logistic(-1.0, 0.5)),
    "rayleigh": (lambda r, n: r.rayleigh(3.0, n), st.rayleigh(scale=3.0)),
    "weibull": (lambda r, n: r.weibull(1.7, n), st.weibull_min(1.7)),
    "pareto": (lambda r, n: r.pareto(3.0, n), st.lomax(3.0)),
    "power": (lambda r, n: r.power(2.5, n), st.powerlaw(2.5)),
    "lognormal": (lambda r, n: r.lognormal(0.5, 0.7, n), st.lognorm(0.7, scale=np.exp(0.5))),
    "wald": (lambda r, n: r.wald(2.0, 3.0, n), st.invgauss(2.0 / 3.0, scale=3.0)),
    "standard_cauchy": (lambda r, n: r.standard_cauchy(n), st.cauchy()),
    "triangular": (lambda r, n: r.triangular(-1.0, 0.5, 4.0, n), st.triang(0.3, -1.0, 5.0)),
}  # fmt: skip

DISCRETE: dict[str, tuple[Callable[[Generator, int], Any], Any]] = {
    **{f"poisson {m}": (lambda r, n, m=m: r.poisson(m, n), st.poisson(m))
       for m in (0.3, 4.0, 9.99, 10.0, 33.3, 2500.0)},
    **{f"binomial {k} {p}": (lambda r, n, k=k, p=p: r.binomial(k, p, n), st.binom(k, p))
       for k, p in ((1, 0.3), (20, 0.1), (20, 0.97), (60, 0.5), (1000, 0.02), (10**6, 0.7))},
    "geometric": (lambda r, n: r.geometric(0.3, n), st.geom(0.3)),
    "negative_binomial": (lambda r, n: r.negative_binomial(3.5, 0.4, n), st.nbinom(3.5, 0.4)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str) -> None:
    draw, law = CONTINUOUS[name]
    x = draw(default_rng(5), COUNT).to_numpy().astype(np.float64)
    assert np.isfinite(x).all()
    assert st.kstest(x, law.cdf).pvalue > LEAST
    # The test can fail: the same numbers, shifted by a twentieth of their spread, do.
    quartiles = law.ppf([0.25, 0.75])
    assert st.kstest(x + 0.05 * (quartiles[1] - quartiles[0]), law.cdf).pvalue < LEAST


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str) -> None:
    draw, law = DISCRETE[name]
    x = draw(default_rng(6), COUNT)
    assert x.dtype == gp.int64
    values = x.to_numpy()
    edges = np.unique(law.ppf(np.linspace(0.02, 0.98, 25)))
    chances = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    counts = np.histogram(values, np.concatenate([[-np.inf], edges + 0.5, [np.inf]]))[0]
    kept = chances * COUNT > 5
    assert (
        st.chisquare(counts[kept], chances[kept] / chances[kept].sum() * counts[kept].sum()).pvalue
        > LEAST
    )
    assert abs(values.mean() - law.mean()) < 5 * law.std() / np.sqrt(COUNT)
    assert abs(values.var() / law.var() - 1) < 0.06


def test_large_means_keep_their_spread() -> None:
    """Where terms of the size of the mean would cancel."""
    for draw, mean, spread in (
        (lambda r: r.poisson(1e15, COUNT), 1e15, 1e15**0.5),
        (lambda r: r.binomial(2**50, 0.25, COUNT), 2.0**48, (2.0**50 * 0.1875) ** 0.5),
    ):
        z = (draw(default_rng(7)).to_numpy() - mean) / spread
        assert st.kstest(z, st.norm.cdf).pvalue > LEAST


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_numbers_do_not_depend_on_the_shape(name: str) -> None:
    draw = (CONTINUOUS | DISCRETE)[name][0]
    if name in ("laplace", "logistic", "f", "standard_t", "beta", "beta small", "wald",
                "negative_binomial", "noncentral_chisquare"):  # fmt: skip
        pytest.skip("two draws: the second begins behind the first")
    whole = draw(default_rng(3), 1000).to_numpy()
    np.testing.assert_array_equal(draw(default_rng(3), 77).to_numpy(), whole[:77])
    np.testing.assert_array_equal(draw(default_rng(3), (10, 100)).to_numpy().ravel(), whole)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["gamma", "poisson", "binomial"])
def test_parameters_may_be_arrays(method: str) -> None:
    first = np.array([[0.5], [3.0], [40.0]])
    second = np.linspace(0.1, 0.9, 5)
    rng = default_rng(4)
    if method == "gamma":
        got = rng.gamma(gp.from_numpy(first), gp.from_numpy(second), dtype="float64").to_numpy()
        want = [[default_rng(4).advance(5 * i + j).gamma(a, s, dtype="float64").item()
                 for j, s in enumerate(second)] for i, a in enumerate(first[:, 0])]  # fmt: skip
    elif method == "poisson":
        got = rng.poisson(gp.from_numpy(first), (3, 5)).to_numpy()
        want = [[default_rng(4).advance(5 * i + j).poisson(a).item() for j in range(5)]
                for i, a in enumerate(first[:, 0])]  # fmt: skip
    else:
        n = np.array([[5], [80], [0]])
        got = rng.binomial(gp.from_numpy(n), second.tolist()).to_numpy()
        chances = second.astype(np.float32)  # as a list of Python numbers becomes
        want = [[default_rng(4).advance(5 * i + j).binomial(int(k), p).item()
                 for j, p in enumerate(chances)] for i, k in enumerate(n[:, 0])]  # fmt: skip
    np.testing.assert_array_equal(got, want)
    assert rng.state["position"] == 15


def test_invalid_elements_of_arrays() -> None:
    bad = gp.from_numpy(np.array([-1.0, np.nan, 2.0]))
    gammas = default_rng(1).gamma(bad).to_numpy()
    assert np.isnan(gammas[:2]).all()
    assert np.isfinite(gammas[2])
    assert default_rng(1).poisson(bad).tolist()[:2] == [-1, -1]
    assert default_rng(1).binomial(bad, 0.5).tolist()[:2] == [-1, -1]
    assert default_rng(1).binomial(5, gp.from_numpy(np.array([1.5, -0.1]))).tolist() == [-1, -1]


def test_edges() -> None:
    rng = default_rng(1)
    assert rng.gamma(0.0, size=3).tolist() == [0, 0, 0]
    assert rng.poisson(0.0, 3).tolist() == [0, 0, 0]
    assert rng.binomial(7, 1.0, 3).tolist() == [7, 7, 7]
    assert rng.binomial(7, 0.0, 3).tolist() == [0, 0, 0]
    assert rng.binomial(0, 0.5, 3).tolist() == [0, 0, 0]
    assert rng.geometric(1.0, 3).tolist() == [1, 1, 1]
    assert rng.gamma(2.0, size=(0, 3)).shape == (0, 3)
    assert rng.poisson().shape == ()


MUST_RAISE: list[tuple[str, Callable[[Any], Any], type[Exception], str]] = [
    ("gamma", lambda r: r.gamma(-1.0), ValueError, "gamma: shape is -1"),
    ("gamma scale", lambda r: r.gamma(1.0, -1.0), ValueError, "gamma: scale is -1"),
    ("gamma dtype", lambda r: r.gamma(1.0, dtype="int32"), TypeError, "gamma: dtype is int32"),
    ("poisson", lambda r: r.poisson(-1.0), ValueError, "poisson: lam is -1"),
    ("poisson huge", lambda r: r.poisson(1e19), ValueError, "poisson: lam is 1e"),
    ("poisson NaN", lambda r: r.poisson(np.nan), ValueError, "poisson: lam is nan"),
    ("binomial n", lambda r: r.binomial(-1, 0.5), ValueError, "binomial: n is -1"),
    ("binomial p", lambda r: r.binomial(3, 1.5), ValueError, "binomial: p is 1.5"),
    ("geometric", lambda r: r.geometric(0.0), ValueError, "geometric: p is 0"),
    ("beta", lambda r: r.beta(0.0, 1.0), ValueError, "beta: a is 0"),
    ("laplace", lambda r: r.laplace(0.0, -1.0), ValueError, "laplace: scale is -1"),
    ("triangular", lambda r: r.triangular(3.0, 1.0, 2.0), ValueError, "triangular: left"),
    ("text", lambda r: r.poisson("a" + "b" * 3), TypeError, "."),
    ("size", lambda r: r.poisson(gp.ones(3), 2), ValueError, "poisson: size"),
    ("pvals", lambda r: r.multinomial(3, [0.9, 0.9, 0.1]), ValueError, "multinomial: pvals"),
    ("pvals None", lambda r: r.multinomial(3, None), TypeError, "multinomial: pvals is None"),
    ("pvals text", lambda r: r.multinomial(3, ["a"]), TypeError, r"multinomial: pvals\[0\] is str"),
    ("size text", lambda r: r.dirichlet([1, 2], "ab"), TypeError, r"dirichlet: size\[0\] is str"),
    ("size float", lambda r: r.choice(3, 1.5), TypeError, "choice: size is float"),
    ("size < 0", lambda r: r.poisson(1.0, (2, -1)), ValueError, r"poisson: size\[1\] is -1"),
    ("cov", lambda r: r.multivariate_normal([0, 0], np.eye(3)), ValueError, "multivariate_normal"),
]  # fmt: skip


@pytest.mark.parametrize("case", MUST_RAISE, ids=lambda case: case[0])
def test_must_raise(case: Any) -> None:
    rng = default_rng(1)
    with pytest.raises(case[2], match=case[3]):
        case[1](rng)
    assert rng.state["position"] == 0


def test_multinomial_and_dirichlet() -> None:
    counts = default_rng(2).multinomial(50, [0.2, 0.3, 0.5], 4000).to_numpy()
    assert (counts.sum(axis=1) == 50).all()
    np.testing.assert_allclose(counts.mean(axis=0), [10, 15, 25], atol=0.3)
    np.testing.assert_allclose(np.cov(counts.T)[0, 1], -50 * 0.2 * 0.3, rtol=0.15)
    shares = default_rng(2).dirichlet([1.0, 2.0, 5.0], 4000, "float64").to_numpy()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert st.kstest(shares[:, 0], st.beta(1.0, 7.0).cdf).pvalue > LEAST


def test_multivariate_normal() -> None:
    factor = np.array([[2.0, 0, 0], [1.0, 0.5, 0], [0.3, -1.0, 0.7]])
    cov, mean = factor @ factor.T, np.array([1.0, -2.0, 3.0])
    x = default_rng(3).multivariate_normal(mean, cov, 20_000, "float64").to_numpy()
    white = np.linalg.solve(factor, (x - mean).T)
    for row in white:
        assert st.kstest(row, st.norm.cdf).pvalue > LEAST
    np.testing.assert_allclose(np.corrcoef(white), np.eye(3), atol=0.03)
    flat = default_rng(3).multivariate_normal([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]], 100).to_numpy()
    np.testing.assert_allclose(flat[:, 0], flat[:, 1], atol=1e-6)


def test_module_functions() -> None:
    gp.random.seed(7)
    first = gp.random.rand(3, 4).to_numpy()
    state = gp.random.get_state()
    second = gp.random.randn(5).to_numpy()
    gp.random.seed(7)
    np.testing.assert_array_equal(gp.random.random((3, 4)).to_numpy(), first)
    np.testing.assert_array_equal(gp.random.standard_normal(5).to_numpy(), second)
    gp.random.set_state(state)
    np.testing.assert_array_equal(gp.random.randn(5).to_numpy(), second)
    np.testing.assert_array_equal(default_rng(7).random((3, 4)).to_numpy(), first)
    assert gp.random.rand().shape == ()
    x = gp.random.randint(3, 9, (50,), "int32").to_numpy()
    assert x.dtype == np.int32
    assert set(x) == set(range(3, 9))
    y = gp.arange(20)
    gp.random.shuffle(y)
    assert sorted(y.tolist()) == list(range(20))
    assert sorted(gp.random.permutation(9).tolist()) == list(range(9))
    assert gp.random.choice(5, 3, replace=False).size == 3


def test_random_state() -> None:
    a, b = RandomState(3), RandomState(3)
    np.testing.assert_array_equal(a.rand(4).to_numpy(), b.rand(4).to_numpy())
    copy = pickle.loads(pickle.dumps(a))
    np.testing.assert_array_equal(a.randn(4).to_numpy(), copy.randn(4).to_numpy())
    assert RandomState().rand(3).shape == (3,)
    first, second = RandomState().rand(8).to_numpy(), RandomState().rand(8).to_numpy()
    assert not np.array_equal(first, second)
