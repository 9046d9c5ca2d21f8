"""Random numbers on CPU simulation: the stream, its distributions, generators."""

from __future__ import annotations

import copy
import itertools
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from cases import random as cases

import pygpukit as gp
from pygpukit import _reference
from pygpukit._reference.random import Stream, philox
from pygpukit.random import Generator, default_rng


def values(array: gp.GPUArray) -> Any:
    return array.to_numpy()


# Counter, key and words from the authors' test vectors (Random123, philox4x32-10).
VECTORS = [
    ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        0x299F31D0A4093822,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), VECTORS)
def test_known_answers(counter: Any, key: int, words: Any) -> None:
    assert tuple(int(w) for w in philox(counter, key)) == words


def test_the_generator_shows_the_words() -> None:
    rng = Generator(0)
    np.testing.assert_array_equal(
        values(rng.integers(2**32, size=4, dtype="uint32")), VECTORS[0][2]
    )
    assert rng.state["position"] == 1
    middle = Generator(VECTORS[2][1], 0x13198A2E85A308D3243F6A88)
    assert int(values(middle.integers(2**32, dtype="uint32"))) == int(
        philox((0x243F6A88, 0x85A308D3, 0x13198A2E, 0), VECTORS[2][1])[0]
    )


def test_positions_carry_into_the_third_word() -> None:
    rng = Generator(7, 2**64 - 1)
    got = values(rng.integers(2**32, size=8, dtype="uint32")).reshape(2, 4)
    low = 2**32 - 1
    np.testing.assert_array_equal(got[0], [int(w) for w in philox((low, low, 0, 0), 7)])
    np.testing.assert_array_equal(got[1], [int(w) for w in philox((0, 0, 1, 0), 7)])
    assert rng.state["position"] == 2**64 + 1


@pytest.mark.parametrize("size", cases.SIZES, ids=str)
@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_shape_dtype_and_repeatability(case: cases.Case, size: Any) -> None:
    rng = default_rng(11)
    got = values(case.call(rng, size))
    assert got.shape == np.empty(() if size is None else size).shape
    assert got.dtype == np.dtype(cases.dtype_of(case))
    np.testing.assert_array_equal(got, values(case.call(default_rng(11), size)))


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_elements_do_not_depend_on_the_shape(case: cases.Case) -> None:
    whole = values(case.call(default_rng(3), 1001))
    for part in (1, 5, 998):
        np.testing.assert_array_equal(values(case.call(default_rng(3), part)), whole[:part])
    np.testing.assert_array_equal(values(case.call(default_rng(3), (7, 143))).reshape(-1), whole)


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_a_second_call_goes_on_at_the_next_block(case: cases.Case) -> None:
    rng = default_rng(5)
    case.call(rng, 6)
    used = rng.state["position"]
    by_rejection = case.op in ("random_gamma", "random_poisson", "random_binomial")
    assert used == (6 if by_rejection else 3 if _is_wide(case) else 2)
    fresh = default_rng(5).advance(used)
    np.testing.assert_array_equal(values(case.call(rng, 9)), values(case.call(fresh, 9)))


def _is_wide(case: cases.Case) -> bool:
    options = dict(case.options)
    if case.method != "integers":
        return options.get("dtype") == "float64"
    top = options["high"] - (0 if options.get("endpoint") else 1)
    return bool(top - options["low"] >= 2**32)


@pytest.mark.parametrize("case", cases.MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: cases.MustRaise) -> None:
    cases.run_must_raise(case, default_rng(1))


def chi_square(counts: Any, expected: float) -> float:
    return float((((counts - expected) ** 2) / expected).sum())


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_uniform_fills_its_range_evenly(dtype: str) -> None:
    u = values(default_rng(21).random(160_000, dtype)).astype(np.float64)
    assert u.min() >= 0.0
    assert u.max() < 1.0
    counts = np.bincount((u * 64).astype(int), minlength=64)
    assert 28 < chi_square(counts, 160_000 / 64) < 115  # 63 degrees: 1e-4 to 1 - 1e-4
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.01


def test_uniform_uses_all_bits() -> None:
    u = values(default_rng(1).random(4096))
    assert (u * 2.0**24 == np.round(u * 2.0**24)).all()
    assert len(np.unique((u * 2.0**24).astype(int) & 255)) == 256


def test_uniform_bounds() -> None:
    x = values(default_rng(4).uniform(-3.0, 5.0, 50_000))
    assert x.min() >= -3.0
    assert x.max() <= 5.0
    assert abs(x.mean() - 1.0) < 0.05
    np.testing.assert_array_equal(values(default_rng(4).uniform(2.0, 2.0, 5)), np.full(5, 2.0))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_normal_moments_and_shape(dtype: str) -> None:
    z = values(default_rng(8).standard_normal(200_000, dtype)).astype(np.float64)
    assert np.isfinite(z).all()
    assert abs(z.mean()) < 0.01
    assert abs(z.var() - 1.0) < 0.015
    assert abs((z**3).mean()) < 0.03
    assert abs((z**4).mean() - 3.0) < 0.12
    assert abs(np.corrcoef(z[0::2], z[1::2])[0, 1]) < 0.01
    # Quantiles of the normal distribution at 1/4, 3/4 and 0.999.
    assert np.quantile(z, [0.25, 0.75, 0.999]) == pytest.approx(
        [-0.67449, 0.67449, 3.0902], abs=0.08 if dtype == "bfloat16" else 0.05
    )


def test_normal_has_tails_beyond_six() -> None:
    """The smallest word: the largest radius. No infinity, no NaN."""
    words = np.array([0, 2**32 - 1, 1], np.uint64)
    radius = np.sqrt(2 * _reference.random._minus_log_narrow(words))
    assert radius[0] == pytest.approx(6.7637, abs=1e-3)
    assert radius[1] == 0.0


def test_exponential_moments() -> None:
    x = values(default_rng(9).exponential(2.0, 200_000))
    assert x.min() >= 0.0
    assert abs(x.mean() - 2.0) < 0.02
    assert abs(x.std() - 2.0) < 0.03
    assert abs(np.median(x) - 2.0 * np.log(2.0)) < 0.02


@pytest.mark.parametrize(("low", "high"), [(0, 6), (-3, 4), (5, 105)])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_integers_are_even(low: int, high: int, dtype: str) -> None:
    x = values(default_rng(13).integers(low, high, 120_000, dtype))
    counts = np.bincount(x.astype(int) - low, minlength=high - low)
    assert len(counts) == high - low
    freedom = high - low - 1
    assert chi_square(counts, 120_000 / (high - low)) < freedom + 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("top", [3 * 2**30, 3 * 2**62])
def test_integers_draw_again_without_bias(top: int) -> None:
    """A quarter of the first words is rejected; without that thirds would not be even."""
    x = values(default_rng(17).integers(0, top, 90_000, "uint64"))
    counts = np.bincount((x // np.uint64(top // 3)).astype(int), minlength=3)
    assert chi_square(counts, 30_000) < 25


def test_rejected_draws_take_the_next_attempt() -> None:
    count = 3 * 2**30
    got = values(default_rng(2).integers(0, count, 256, "uint32"))
    stream = Stream(default_rng(2).state["key"], 0, 0)
    seen = 0
    for i, value in enumerate(got):
        for attempt in itertools.count():
            word = int(stream.blocks(np.array([i // 4], np.uint64), attempt)[0, i % 4])
            seen = max(seen, attempt)
            if word * count % 2**32 >= 2**32 % count:
                break
        assert value == word * count >> 32
    assert seen >= 2


def test_integers_reach_both_ends() -> None:
    rng = default_rng(1)
    assert set(values(rng.integers(3, size=100))) == {0, 1, 2}
    assert set(values(rng.integers(-1, 1, size=100, endpoint=True))) == {-1, 0, 1}
    full = values(rng.integers(0, 256, size=10_000, dtype="uint8"))
    assert len(np.unique(full)) == 256
    assert values(rng.integers(-(2**63), 2**63, size=4)).dtype == np.int64


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_bernoulli(p: float) -> None:
    x = values(default_rng(6).bernoulli(p, 50_000))
    assert x.dtype == bool
    assert abs(x.mean() - p) <= (0.0 if p in (0.0, 1.0) else 0.01)


def test_out() -> None:
    out = gp.zeros((3, 5))
    assert default_rng(1).random(out=out) is out
    np.testing.assert_array_equal(values(out), values(default_rng(1).random((3, 5))))
    assert default_rng(1).standard_normal((3, 5), out=out) is out
    assert default_rng(1).standard_exponential(out=out) is out
    with pytest.raises(ValueError, match=r"random: out has shape \(3, 5\), size is \(3, 4\)"):
        default_rng(1).random((3, 4), out=out)
    with pytest.raises(TypeError, match="random: out has dtype float32"):
        default_rng(1).random(dtype="float64", out=out)
    with pytest.raises(TypeError, match="random: out is"):
        default_rng(1).random(out=np.zeros(3))  # type: ignore[arg-type]


def test_seeds() -> None:
    def first(seed: Any) -> int:
        return int(values(default_rng(seed).integers(2**63)))

    seeds: list[Any] = [0, 1, 2, 2**32, 2**63, 2**64, 2**64 + 1, [0], [0, 0], [0, 2], [1, 0]]
    assert first(0) == first([0])
    assert len({first(seed) for seed in seeds}) == len(seeds) - 1
    assert first(np.int64(3)) == first(3)
    assert first(None) != first(None)
    rng = default_rng(1)
    assert default_rng(rng) is rng
    for bad, error in ((-1, ValueError), ([1, -1], ValueError), (1.5, TypeError), ("x", TypeError)):
        with pytest.raises(error, match="default_rng: seed is"):
            default_rng(bad)


def test_spawn() -> None:
    rng, same = default_rng(1), default_rng(1)
    children = [*rng.spawn(2), *rng.spawn(1), rng]
    again = [*same.spawn(3), same]
    numbers = [values(child.random(4)).tolist() for child in children]
    assert numbers == [values(child.random(4)).tolist() for child in again]
    assert len({tuple(row) for row in numbers}) == 4
    with pytest.raises(ValueError, match="spawn"):
        rng.spawn(-1)


def test_pickle_and_copy() -> None:
    rng = default_rng(1, device="cpu")
    rng.random(5)
    rng.spawn(1)
    want = rng.state
    for other in (pickle.loads(pickle.dumps(rng)), copy.copy(rng), copy.deepcopy(rng)):
        assert other.state == want
        assert other._device == "cpu"
        np.testing.assert_array_equal(
            values(other.random(5)), values(default_rng(1).advance(2).random(5))
        )
    assert rng.state == want
    rng.state = {**want, "position": 0}
    np.testing.assert_array_equal(values(rng.random(5)), values(default_rng(1).random(5)))
    assert "Philox" in repr(rng)


def test_threads_get_different_numbers() -> None:
    rng = default_rng(1)
    found: list[float] = []

    def draw() -> None:
        for _ in range(50):
            found.extend(values(rng.random(4, "float64")).tolist())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found) == 800
    assert rng.state["position"] == 400


def test_default_seed_from_the_environment(run_python: Any) -> None:
    code = (
        "from pygpukit.random import default_rng\n"
        "print([default_rng().random(3).to_numpy().tolist() for _ in range(3)])\n"
        "print(default_rng(12).random(3).to_numpy().tolist())\n"
    )
    first = run_python(code, PYGPUKIT_SEED="12", PYGPUKIT_DEVICE="cpu")
    assert first.returncode == 0, first.stderr
    assert first.stdout == run_python(code, PYGPUKIT_SEED="12", PYGPUKIT_DEVICE="cpu").stdout
    rows = eval(first.stdout.splitlines()[0])
    assert rows[0] == eval(first.stdout.splitlines()[1])
    assert len({tuple(row) for row in rows}) == 3


def test_permutation() -> None:
    order = values(default_rng(3).permutation(1000))
    assert order.dtype == np.int64
    assert sorted(order) == list(range(1000))
    assert (order != np.arange(1000)).sum() > 900
    x = gp.from_numpy(np.arange(12).reshape(3, 4))
    mixed = values(default_rng(3).permutation(x, axis=1))
    assert sorted(mixed[0]) == [0, 1, 2, 3]
    np.testing.assert_array_equal(mixed - mixed[:1], np.array([[0], [4], [8]]) + np.zeros((3, 4)))
    assert values(default_rng(3).permutation(0)).shape == (0,)
    with pytest.raises(TypeError):
        default_rng(3).permutation(2.5)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="permutation: axis 2"):
        default_rng(3).permutation(x, axis=2)


def test_permuted() -> None:
    """Each row in an order of its own; all elements without an axis."""
    host = np.arange(4000).reshape(20, 200)
    x = gp.from_numpy(host)
    rows = values(default_rng(4).permuted(x, axis=1))
    np.testing.assert_array_equal(np.sort(rows, 1), host)
    assert len({tuple(row - row.min()) for row in rows}) == 20
    columns = values(default_rng(4).permuted(x, axis=0))
    np.testing.assert_array_equal(np.sort(columns, 0), host)
    whole = values(default_rng(4).permuted(x))
    np.testing.assert_array_equal(np.sort(whole, None), host.ravel())
    assert (np.sort(whole, 1) != host).any()
    out = gp.empty(3, "int64")
    assert default_rng(4).permuted([1, 2, 3], out=out) is out
    assert sorted(out.tolist()) == [1, 2, 3]
    with pytest.raises(ValueError, match=r"^permuted: out has shape \(2,\), x \(3,\)"):
        default_rng(4).permuted([1, 2, 3], out=gp.empty(2, "int64"))
    with pytest.raises(IndexError, match=r"^permuted: axis 2 is out of bounds"):
        default_rng(4).permuted(x, axis=2)


def test_sequences() -> None:
    """A list is the population, as in NumPy."""
    assert set(values(default_rng(5).choice([7, 9, 11], 50))) == {7, 9, 11}
    assert set(values(default_rng(5).choice(np.array([1.5, 2.5]), 50, p=[1.0, 0.0]))) == {1.5}
    assert sorted(values(default_rng(5).permutation([3, 1, 2]))) == [1, 2, 3]
    assert values(default_rng(5).choice(gp.asarray(4), 30)).max() < 4
    items: list[object] = [1, "b", None, 4.0, 5]
    default_rng(5).shuffle(items)
    assert items != [1, "b", None, 4.0, 5]
    assert sorted(map(str, items)) == ["1", "4.0", "5", "None", "b"]
    with pytest.raises(TypeError, match=r"^shuffle: x is of type tuple, expected a GPUArray"):
        default_rng(5).shuffle((1, 2))  # type: ignore[arg-type]


def test_parameters_in_arrays() -> None:
    """As many numbers as the parameters broadcast to."""
    centre = gp.from_numpy(np.array([[-100.0], [100.0]]))
    width = gp.from_numpy(np.array([1.0, 0.0, 2.0]))
    normal = values(default_rng(6).normal(centre, width, dtype="float64"))
    assert normal.shape == (2, 3)
    np.testing.assert_array_equal(normal[:, 1], [-100.0, 100.0])
    assert (np.abs(normal - [[-100], [100]]) < 15).all()
    drawn = values(default_rng(6).normal(0.0, [1.0, 3.0], (100_000, 2)))
    np.testing.assert_allclose(drawn.std(0), [1.0, 3.0], rtol=0.02)
    flat = values(default_rng(6).uniform([0.0, 10.0], [1.0, 30.0], (50_000, 2), "float64"))
    assert ((flat >= [0, 10]) & (flat < [1, 30])).all()
    np.testing.assert_allclose(flat.mean(0), [0.5, 20.0], rtol=0.02)
    waits = values(default_rng(6).exponential(np.array([1.0, 5.0]), (100_000, 2)))
    np.testing.assert_allclose(waits.mean(0), [1.0, 5.0], rtol=0.03)
    assert waits.dtype == np.float32
    with pytest.raises(ValueError, match=r"^normal: size \(5,\) is not compatible"):
        default_rng(6).normal(centre, 1.0, 5)
    with pytest.raises(TypeError, match=r"^normal: loc is 'a', expected a number"):
        default_rng(6).normal("a", [1.0])


def test_every_order_is_equally_likely() -> None:
    rng = default_rng(33)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(1200):
        order = tuple(values(rng.permutation(3)).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert chi_square(np.array(list(counts.values())), 200) < 30


def test_shuffle() -> None:
    x = gp.from_numpy(np.arange(100))
    default_rng(3).shuffle(x)
    assert sorted(values(x)) == list(range(100))
    np.testing.assert_array_equal(values(x), values(default_rng(3).permutation(100)))


def test_choice() -> None:
    rng = default_rng(5)
    assert set(values(rng.choice(3, 100))) == {0, 1, 2}
    assert values(rng.choice(3)).shape == ()
    assert sorted(values(rng.choice(10, (2, 5), replace=False)).reshape(-1)) == list(range(10))
    x = gp.from_numpy(np.arange(10, 22).reshape(2, 3, 2))
    assert values(rng.choice(x, 5, axis=1)).shape == (2, 5, 2)
    assert values(rng.choice(0, 0)).shape == (0,)


def test_choice_with_probabilities() -> None:
    rng = default_rng(5)
    p = [0.1, 0.0, 0.6, 0.3]
    for probabilities in (p, gp.from_numpy(np.array(p))):
        found = np.bincount(values(rng.choice(4, 20_000, p=probabilities)), minlength=4) / 20_000
        np.testing.assert_allclose(found, p, atol=0.015)
    firsts = [int(values(rng.choice(4, 3, replace=False, p=p))[0]) for _ in range(300)]
    assert 1 not in firsts
    assert 0.5 < firsts.count(2) / 300 < 0.7
    assert sorted(values(rng.choice(4, 3, replace=False, p=p))) == [0, 2, 3]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r: r.choice(0), "positive"),
        (lambda r: r.choice(3, 4, replace=False), "larger sample"),
        (lambda r: r.choice(3, 2, p=[0.5, 0.6, 0.2]), "do not sum to 1"),
        (lambda r: r.choice(3, 2, p=[0.5, 0.5]), "same size"),
        (lambda r: r.choice(3, 2, p=[-0.5, 0.6, 0.9]), "non-negative"),
        (lambda r: r.choice(3, 2, p=[1, 0, 0], replace=False), "fewer non-zero"),
    ],
)
def test_choice_must_raise(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"choice: .*{words}"):
        call(default_rng(1))


def test_in_a_graph() -> None:
    """Replays repeat the numbers of the capture; the generator has moved on once."""
    rng, out = default_rng(1), gp.zeros(8)
    graph = gp.CudaGraph()
    with graph:
        rng.random(out=out)
    assert rng.state["position"] == 2
    for _ in range(2):
        graph.replay()
        np.testing.assert_array_equal(values(out), values(default_rng(1).random(8)))
