"""Creation and manipulation on the GPU: the case table, sizes beyond 32 bits, graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import manipulation
from cases.manipulation import numpy_type

import pygpukit as gp
from pygpukit import _reference

BIG = 2**31 + 7


def assert_same(got: Any, want: Any) -> None:
    """Equal, NaN too; in float32 for dtypes whose NaN NumPy does not know."""
    if want.dtype.name.startswith("float8"):
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("case", manipulation.CASES, ids=str)
def test_case(case: manipulation.Case) -> None:
    manipulation.run_case(case, "cuda")


@pytest.mark.parametrize("case", manipulation.MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: manipulation.MustRaise) -> None:
    manipulation.run_must_raise(case, "cuda")


@pytest.mark.parametrize("dtype", manipulation.DTYPES)
@pytest.mark.parametrize("count", [0, 1, 31, 255, 256, 257, 4099])
def test_ramps(dtype: str, count: int) -> None:
    kind = numpy_type(dtype)
    if dtype != "bool":
        for start, step in ((0, 1), (100, -1), (3, 0)):
            want = np.empty(count, kind)
            _reference.arange(start, step, out=want)
            got = gp._native.arange(count, start, step, dtype, "cuda")
            assert_same(got.to_numpy(), want)
    for start, stop in ((0, 1), (5, 100.5), (7, 7), (0.0, 5e-324), (100, 3)):
        for endpoint in (True, False):
            want = np.empty(count, kind)
            _reference.linspace(complex(start), complex(stop), endpoint, out=want)
            got = gp.linspace(start, stop, count, dtype=dtype, endpoint=endpoint, device="cuda")
            assert_same(got.to_numpy(), want)


def test_ramps_of_floats_and_complex_numbers() -> None:
    rng = np.random.default_rng(5)
    for start, stop in rng.normal(size=(20, 2)) * 10.0 ** rng.integers(-9, 9, (20, 2)):
        want = np.linspace(start, stop, 1001)
        got = gp.linspace(start, stop, 1001, dtype="float64", device="cuda").to_numpy()
        np.testing.assert_array_equal(got, want)
        step = (stop - start) / 1000
        np.testing.assert_array_equal(
            gp.arange(start, stop, step, dtype="float64", device="cuda").to_numpy(),
            np.arange(start, stop, step),
        )
    got = gp.linspace(1 - 2j, 3 + 4j, 33, dtype="complex128", device="cuda").to_numpy()
    np.testing.assert_array_equal(got, np.linspace(1 - 2j, 3 + 4j, 33))
    assert gp.arange(2**63, 2**63 + 3, dtype="uint64").to_numpy().tolist()[-1] == 2**63 + 2


@pytest.mark.parametrize("shift", [0, 1, 4])
def test_triangles_of_misaligned_arrays(shift: int) -> None:
    host = np.arange(64 * 48 + 16, dtype=np.int32)
    x = gp._native.slice_axis(gp.from_numpy(host, device="cuda"), 0, shift, 64 * 48)
    for k in (-3, 0, 5):
        want = host[shift:][: 64 * 48].reshape(64, 48)
        np.testing.assert_array_equal(gp.tril(x.reshape(64, 48), k=k).to_numpy(), np.tril(want, k))
        np.testing.assert_array_equal(gp.triu(x.reshape(64, 48), k=k).to_numpy(), np.triu(want, k))


def same(got: Any, want: Any) -> bool:
    return bool(np.array_equal(got, want))


def test_more_than_two_to_the_31_elements() -> None:
    """Above 2**31 elements; the ends are where 32-bit indices go wrong."""
    ramp = gp.arange(BIG, dtype="uint8", device="cuda")
    host = ramp.to_numpy()
    assert same(host[:1000], np.arange(1000).astype(np.uint8))
    assert same(host[-1000:], np.arange(BIG - 1000, BIG).astype(np.uint8))
    assert same(host[2**31 - 500 : 2**31 + 7], np.arange(2**31 - 500, BIG).astype(np.uint8))
    assert same(gp.flip(ramp).contiguous().to_numpy()[:500], host[::-1][:500])
    rolled = gp.roll(ramp, 3).to_numpy()
    assert same(rolled[:3], host[-3:])
    assert same(rolled[-500:], host[-503:-3])
    del rolled
    joined = gp.concat([ramp, ramp]).to_numpy()  # more than 2**32 bytes
    assert joined.nbytes > 2**32
    assert same(joined[BIG - 5 : BIG + 5], np.concatenate([host[-5:], host[:5]]))
    assert same(joined[-1000:], host[-1000:])


@pytest.mark.parametrize("shift", [0, 1, 4])
def test_misaligned_arrays_side_by_side(shift: int) -> None:
    host = np.arange(64 * 48 + 16, dtype=np.int32)
    x = gp._native.slice_axis(gp.from_numpy(host, device="cuda"), 0, shift, 64 * 48).reshape(64, 48)
    y = gp.from_numpy(host[:640].reshape(64, 10), device="cuda")
    want = np.concatenate([host[shift:][: 64 * 48].reshape(64, 48), host[:640].reshape(64, 10)], 1)
    assert same(gp.concat([x, y], axis=1).to_numpy(), want)


def test_arrays_side_by_side_in_one_launch() -> None:
    parts = [gp.full((64, 64), float(i), device="cuda") for i in range(4)]
    wide, tall = gp.empty((64, 256), device="cuda"), gp.empty((4, 64, 64), device="cuda")
    graph = gp.CudaGraph()
    with graph:
        gp.concat(parts, axis=1, out=wide)
        gp.stack(parts, out=tall)
    assert len(graph.launches) == 2
    graph.replay()
    graph.synchronize()
    assert same(wide.to_numpy(), np.repeat(np.arange(4.0), 64) * np.ones((64, 1)))
    assert same(tall.to_numpy(), np.arange(4.0)[:, None, None] * np.ones((4, 64, 64)))


def test_large_matrices() -> None:
    rows, cols = 2**16 + 1, 2**15 + 16
    x = gp.ones((rows, cols), "uint8", device="cuda")
    lower = gp.tril(x)
    last = gp._native.slice_axis(lower, 0, rows - 1, 1).to_numpy()
    assert last.all()
    middle = gp._native.slice_axis(lower, 0, 30000, 1).to_numpy()[0]
    assert middle[:30001].all()
    assert not middle[30001:].any()
    eye = gp.eye(rows, cols, k=-5, dtype="uint8", device="cuda")
    line = gp.diagonal(eye, -5)
    assert line.contiguous().to_numpy().all()


def test_wide_ramp() -> None:
    """More than 2**32 bytes."""
    got = gp.linspace(0, 1, 2**29 + 3, dtype="float64", device="cuda")
    assert got.nbytes > 2**32
    tail = gp._native.slice_axis(got, 0, 2**29 - 100, 103).to_numpy()
    assert same(tail, np.linspace(0, 1, 2**29 + 3)[-103:])


def test_same_bits_twice() -> None:
    a = gp.linspace(0.1, 7.3, 100003, device="cuda").to_numpy()
    b = gp.linspace(0.1, 7.3, 100003, device="cuda").to_numpy()
    assert a.tobytes() == b.tobytes()


def test_in_a_graph() -> None:
    x = gp.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3), device="cuda")
    joined, padded = gp.empty((4, 3)), gp.empty((8, 9))
    lower, ramp, eye = gp.empty((2, 3)), gp.empty(3), gp.empty((3, 3))
    graph = gp.CudaGraph()
    with graph:
        gp.concat([x, gp.roll(x, 1, axis=1)], out=joined)
        gp.copyto(padded, gp.pad(x, 3, mode="reflect"))
        gp.copyto(lower, gp.tril(x))
        gp.copyto(ramp, gp.arange(3, dtype="float32") + gp.linspace(0, 1, 3))
        gp.copyto(eye, gp.eye(3) + gp.tile(gp.full((), 2.0), (3, 3)))
    gp.copyto(x, gp.from_numpy(np.arange(6, 12, dtype=np.float32).reshape(2, 3), device="cuda"))
    graph.replay()
    graph.synchronize()
    host = x.to_numpy()
    assert same(joined.to_numpy(), np.concatenate([host, np.roll(host, 1, 1)]))
    assert same(padded.to_numpy(), np.pad(host, 3, mode="reflect"))
    assert same(lower.to_numpy(), np.tril(host))
    assert ramp.to_numpy().tolist() == [0, 1.5, 3]
    assert same(eye.to_numpy(), np.eye(3) + 2)


def test_between_devices() -> None:
    x = gp.arange(12, dtype="float32", device="cuda").reshape(3, 4)
    host = x.T.to_device("cpu")
    assert host.device == "cpu"
    assert same(host.to_numpy(), x.to_numpy().T)
    back = host.to_device("cuda")
    assert back.on_gpu
    assert same(back.to_numpy(), host.to_numpy())
    assert gp.asarray(x, device="cuda") is x
    with pytest.raises(ValueError, match="copy is False"):
        gp.asarray(x, device="cpu", copy=False)
