"""Indexing on CPU simulation, against plain NumPy."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from cases import indexing
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit import _native, _reference
from pygpukit.ops import indexing as ops

COMBINATIONS = list(indexing.combinations())


def ids(pair: Any) -> str:
    return f"{pair[0]}-{pair[1]}"


@pytest.mark.parametrize("pair", COMBINATIONS, ids=ids)
def test_getitem(pair: tuple[indexing.Case, str]) -> None:
    indexing.run_get(*pair)


@pytest.mark.parametrize("pair", COMBINATIONS, ids=ids)
def test_setitem(pair: tuple[indexing.Case, str]) -> None:
    indexing.run_set(*pair)


@pytest.mark.parametrize("case", indexing.MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: indexing.MustRaise) -> None:
    indexing.run_must_raise(case)


@pytest.mark.parametrize("case", indexing.MUST_RAISE, ids=lambda case: case.name)
def test_numpy_raises_the_same(case: indexing.MustRaise) -> None:
    if case.name in ("set NumPy", "set str", "delete"):
        pytest.skip("NumPy differs: it takes them, or raises ValueError")
    with pytest.raises(case.error):
        case.call(np.arange(12, dtype=np.float32).reshape(3, 4))


@pytest.mark.parametrize("how", [slice(0, 2), 0, [0, 1], [True, False, True]])
@pytest.mark.parametrize(("dtype", "value"), indexing.GOOD_VALUES)
def test_number_as_value(dtype: str, value: Any, how: Any) -> None:
    x, host = gp.zeros(3, dtype), np.zeros(3, dtype)
    x[how] = value
    with np.errstate(over="ignore"):
        host[how] = value
    indexing.equal(x, host)


@pytest.mark.parametrize("how", [slice(0, 2), 0, [0, 1], [True, False, True]])
@pytest.mark.parametrize(("dtype", "value", "error"), indexing.BAD_VALUES)
def test_number_that_does_not_fit(dtype: str, value: Any, error: type[Exception], how: Any) -> None:
    x, host = gp.ones(3, dtype), np.ones(3, dtype)
    with pytest.raises(error, match=r"^setitem: "):
        x[how] = value
    with pytest.raises(error):
        host[how] = value
    indexing.equal(x, host)


@st.composite
def keys(draw: st.DrawFn) -> tuple[Any, Any]:
    """An array and a key with anything in it."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    host = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    host = host.transpose(draw(st.permutations(range(len(shape)))))
    common = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    items: list[Any] = []
    axis = 0
    while axis < host.ndim:
        size = host.shape[axis]
        kind = draw(st.sampled_from(["int", "slice", "array", "mask", "new", "stop"]))
        if kind == "stop":
            break
        if kind == "new":
            items.append(None)
            continue
        if kind == "int":
            items.append(draw(st.integers(-size - 1, size)))
        elif kind == "slice":
            bound = st.none() | st.integers(-size - 2, size + 2)
            step = st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3])
            items.append(slice(draw(bound), draw(bound), draw(step)))
        elif kind == "array":
            values = st.integers(-size, size - 1) if size else st.just(0)
            dims = draw(st.sampled_from([common, common[1:], (1,) * len(common)]))
            items.append(draw(hnp.arrays(np.int64, dims, elements=values)))
        else:
            rank = draw(st.integers(1, host.ndim - axis))
            items.append(draw(hnp.arrays(bool, host.shape[axis : axis + rank])))
            axis += rank - 1
        axis += 1
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    if draw(st.integers(0, 9)) == 0:
        items.insert(draw(st.integers(0, len(items))), draw(st.booleans()))
    return host, tuple(items)


def outcome(call: Any) -> Any:
    try:
        return call()
    except (IndexError, ValueError, TypeError) as error:
        return error


@settings(max_examples=400, deadline=None)
@given(pair=keys())
def test_any_key_as_numpy(pair: tuple[Any, Any]) -> None:
    host, key = pair
    base = gp.from_numpy(np.array(host, order="C"))
    want = outcome(lambda: host[key])
    got = outcome(lambda: base[indexing.on_device(key, None)])
    if isinstance(want, Exception):
        assert isinstance(got, IndexError), f"{want!r} {got!r}"
        return
    if host.size == 0 and "boolean index did not match" in str(got):
        return  # NumPy does not look at masks of nothing
    assert not isinstance(got, Exception), repr(got)
    indexing.equal(got, want)


@settings(max_examples=400, deadline=None)
@given(pair=keys(), data=st.data())
def test_any_assignment_as_numpy(pair: tuple[Any, Any], data: st.DataObject) -> None:
    host, key = pair
    host = np.array(host, order="C")
    picked = outcome(lambda: host[key])
    if isinstance(picked, Exception):
        return
    shape = np.asarray(picked).shape
    kept = tuple(n if data.draw(st.booleans()) else 1 for n in shape)[
        data.draw(st.integers(0, 2)) :
    ]
    value = np.arange(100, 100 + int(np.prod(kept)), dtype=np.int32).reshape(kept)
    x = gp.from_numpy(host)
    want = host.copy()
    failed = outcome(lambda: want.__setitem__(key, value))
    got = outcome(lambda: x.__setitem__(indexing.on_device(key, None), gp.from_numpy(value)))
    if isinstance(failed, Exception):
        assert isinstance(got, (ValueError, TypeError, IndexError))
        return
    if host.size == 0 and "boolean index did not match" in str(got):
        return
    assert got is None, repr(got)
    indexing.equal(x, want)


def test_the_last_of_equal_indices_is_kept() -> None:
    x = gp.zeros((3, 2), "int32")
    x[[0, 2, 0, 0]] = gp.from_numpy(np.arange(8, dtype=np.int32).reshape(4, 2))
    indexing.equal(x, np.array([[6, 7], [0, 0], [2, 3]], np.int32))


def test_in_place_operators_on_a_selection() -> None:
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = gp.from_numpy(host)
    x[1:] += 1
    x[[0, 2]] *= 2
    host[1:] += 1
    host[[0, 2]] *= 2
    indexing.equal(x, host)


def test_overlapping_assignments() -> None:
    host = np.arange(10, dtype=np.int64)
    x = gp.from_numpy(host)
    x[1:] = x[:-1]
    host[1:] = host[:-1].copy()
    indexing.equal(x, host)
    x[[0, 1, 2]] = x[7:]
    host[[0, 1, 2]] = host[7:].copy()
    indexing.equal(x, host)
    y = gp.from_numpy(np.array([2, 0, 1], np.int64))
    y[y] = gp.from_numpy(np.array([5, 6, 7], np.int64))
    indexing.equal(y, np.array([6, 7, 5], np.int64))
    mask = gp.from_numpy(np.array([True, False, True]))
    mask[mask] = False
    indexing.equal(mask, np.zeros(3, bool))


def test_views_share_memory_and_iterate() -> None:
    x = gp.zeros((3, 4), "int32")
    for number, row in enumerate(x):
        assert row.shape == (4,)
        row[...] = number
    indexing.equal(x, np.repeat(np.arange(3, dtype=np.int32), 4).reshape(3, 4))
    assert len(list(x)) == 3
    assert x[1, 2].shape == ()
    with pytest.raises(TypeError, match="0-d"):
        iter(x[0, 0])
    assert [v.to_numpy().item() for v in reversed(x[:, 0])] == [2, 1, 0]


def test_packed_types_have_no_parts() -> None:
    x = gp.zeros((4, 2), "int4")
    assert x[...].shape == (4, 2)
    assert x[None].shape == (1, 4, 2)
    assert x[:, :].shape == (4, 2)
    for key in (0, slice(1, 3), [0], np.ones(4, bool)):
        with pytest.raises(TypeError, match="getitem: int4 shares bytes"):
            x[key]


def test_capture_on_the_cpu() -> None:
    x = gp.zeros(4, "int32")
    index = gp.from_numpy(np.array([1, 1, 3]))
    value = gp.from_numpy(np.array([5, 6, 7], np.int32))
    mask = gp.from_numpy(np.array([True, False, True, False]))
    graph = gp.CudaGraph()
    with graph:
        x[index] = value
        x[mask] = 9
        picked = x[index]
        with pytest.raises(gp.CaptureError, match="getitem: cannot be captured"):
            x[mask]
    graph.replay()
    indexing.equal(x, np.array([9, 6, 9, 7], np.int32))
    indexing.equal(picked, np.array([6, 6, 7], np.int32))


# --- functions ----------------------------------------------------------------------------------

INDEX = np.array([[1, -1, 0], [2, 2, -3]])


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize(
    "index", [INDEX, INDEX.astype(np.int8), [1, 0], 2, [], np.array([True, False])]
)
def test_take(axis: int | None, index: Any) -> None:
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    want = np.take(host, np.asarray(index, dtype=None if np.size(index) else int), axis)
    x = gp.from_numpy(host)
    indexing.equal(ops.take(x, index, axis=axis), want)
    out = gp.empty(np.shape(want), "float64")
    assert ops.take(x, index, axis=axis, out=out) is out
    indexing.equal(out, want.astype(np.float64))


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_take_modes(mode: Any) -> None:
    host = np.arange(5, dtype=np.int16)
    index = np.array([-12, -6, -5, -1, 0, 4, 5, 99])
    indexing.equal(ops.take(gp.from_numpy(host), index, mode=mode), np.take(host, index, mode=mode))


def test_take_refuses() -> None:
    x = gp.zeros((3, 4))
    with pytest.raises(IndexError, match="take: index 5 is out of bounds for axis 1 with size 4"):
        ops.take(x, [0, 5], axis=1)
    with pytest.raises(TypeError, match="take: indices"):
        ops.take(x, gp.zeros(3))
    with pytest.raises(TypeError, match="take: indices"):
        ops.take(x, [0.5])
    with pytest.raises(IndexError, match="take: axis 2 is out of bounds"):
        ops.take(x, [0], axis=2)
    with pytest.raises(ValueError, match=r"take: out has shape \(5,\)"):
        ops.take(x, [0], out=gp.zeros(5))
    with pytest.raises(TypeError, match="take: out has dtype int32"):
        ops.take(x, [0], out=gp.zeros(1, "int32"))
    with pytest.raises(ValueError, match="take: mode is 'x'"):
        ops.take(x, [0], mode="x")
    with pytest.raises(IndexError, match="with size 0"):
        ops.take(gp.zeros(0), [0])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, None])
def test_take_and_put_along_axis(axis: int | None) -> None:
    host = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    rng = np.random.default_rng(0)
    n = host.size if axis is None else host.shape[axis]
    shape = [2, 3, 4]
    if axis is not None:
        shape[axis] = 5
    index = rng.integers(-n, n, 7 if axis is None else shape)
    x = gp.from_numpy(host)
    indexing.equal(ops.take_along_axis(x, index, axis=axis), np.take_along_axis(host, index, axis))
    values = np.arange(index.size, dtype=np.float64).reshape(index.shape)
    want = host.copy()
    np.put_along_axis(want, index, values, axis)
    ops.put_along_axis(x, index, gp.from_numpy(values), axis)
    indexing.equal(x, want)
    np.put_along_axis(want, index, -1, axis)
    ops.put_along_axis(x, index, -1, axis)
    indexing.equal(x, want)


def test_along_axis_broadcasts_and_refuses() -> None:
    host = np.arange(12).reshape(3, 4)
    index = np.array([[0], [2], [1]])
    x = gp.from_numpy(host)
    indexing.equal(
        ops.take_along_axis(x, index[:1], axis=1), np.take_along_axis(host, index[:1], 1)
    )
    indexing.equal(
        ops.take_along_axis(x[:1], index, axis=1), np.take_along_axis(host[:1], index, 1)
    )
    with pytest.raises(ValueError, match="dimensions"):
        ops.take_along_axis(x, index[0], axis=1)
    with pytest.raises(IndexError, match="take_along_axis: index 4 is out of bounds for axis 1"):
        ops.take_along_axis(x, index + 2, axis=1)
    with pytest.raises(IndexError, match="broadcast"):
        ops.take_along_axis(x, np.zeros((2, 1), int), axis=1)


@pytest.mark.parametrize("values", [7, [1, 2], [1, 2, 3, 4, 5, 6], 2.5])
@pytest.mark.parametrize("transposed", [False, True])
def test_put(values: Any, transposed: bool) -> None:
    base = np.arange(12, dtype=np.int32).reshape(3, 4)
    index = [0, -1, 5, 5, 3]
    want = base[:, ::2].copy() if transposed else base.copy()
    np.put(want, index, np.asarray(values).astype(np.int32))
    x = gp.from_numpy(base)
    target = x[:, ::2] if transposed else x
    ops.put(target, index, values)
    indexing.equal(target, want)
    with pytest.raises(IndexError, match="put: index 12 is out of bounds"):
        ops.put(x, [12], 0)


@pytest.mark.parametrize(
    "shape", [(1,), (33,), (3, 0, 5), (7, 11, 13), (1, 1, 1, 1, 1, 1, 1, 1, 2, 1)]
)
@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "bfloat16", "complex64"])
def test_nonzero(shape: tuple[int, ...], dtype: str) -> None:
    host = indexing.array_of(shape, dtype)
    if dtype == "float32" and host.size:
        host.reshape(-1)[0] = -0.0
        host.reshape(-1)[-1] = np.nan
    x = gp.from_numpy(host)
    want = np.nonzero(host)
    got = ops.nonzero(x)
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        indexing.equal(ours, theirs)
    indexing.equal(ops.argwhere(x), np.argwhere(host))
    indexing.equal(ops.flatnonzero(x), np.flatnonzero(host))


def test_nonzero_of_0d() -> None:
    with pytest.raises(ValueError, match="nonzero: not possible on 0-d"):
        ops.nonzero(gp.ones(()))
    assert ops.argwhere(gp.ones(())).shape == (1, 0)
    assert ops.argwhere(gp.zeros(())).shape == (0, 0)
    indexing.equal(ops.flatnonzero(gp.ones(())), np.array([0]))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compress_extract_place(axis: int | None) -> None:
    host = np.arange(12, dtype=np.int32).reshape(3, 4)
    x = gp.from_numpy(host)
    condition = [False, True, True]
    indexing.equal(ops.compress(condition, x, axis=axis), np.compress(condition, host, axis))
    mask = host % 3 == 0
    indexing.equal(ops.extract(gp.from_numpy(mask), x), np.extract(mask, host))
    want = host.copy()
    np.place(want, mask, [7, 8, 9])
    ops.place(x, gp.from_numpy(mask), [7, 8, 9])
    indexing.equal(x, want)
    with pytest.raises(ValueError, match="1-d"):
        ops.compress(gp.from_numpy(mask), x)


@pytest.mark.parametrize(("dtype", "value"), [("complex64", 1j), ("int64", 5), ("bool", True)])
def test_place_of_a_number(dtype: str, value: complex) -> None:
    host, mask = np.zeros((2, 3), dtype), np.eye(2, 3, dtype=bool)
    x = gp.from_numpy(host)
    gp.place(x, gp.from_numpy(mask), value)
    np.place(host, mask, [value])
    np.testing.assert_array_equal(x.to_numpy(), host)
    with pytest.raises(ValueError, match=r"place: the mask has shape \(\), x has \(2, 3\)"):
        gp.place(x, gp.ones((), "complex64"), value)


@pytest.mark.parametrize("order", ["C", "F"])
def test_ravel_and_unravel(order: Any) -> None:
    shape = (3, 4, 5)
    index = np.array([[22, 41], [0, 59]])
    want = np.unravel_index(index, shape, order)
    got = ops.unravel_index(gp.from_numpy(index), shape, order=order)
    for ours, theirs in zip(got, want, strict=True):
        indexing.equal(ours, theirs)
    indexing.equal(ops.ravel_multi_index(got, shape, order=order), index)
    wild = tuple(gp.from_numpy(np.array(v)) for v in ([3, -1], [9, 2], [-7, 4]))
    for mode in ("wrap", "clip"):
        hosts = tuple(w.to_numpy() for w in wild)
        indexing.equal(
            ops.ravel_multi_index(wild, shape, mode=mode, order=order),
            np.ravel_multi_index(hosts, shape, mode, order),  # type: ignore[call-overload]
        )
    with pytest.raises(ValueError, match="ravel_multi_index: index"):
        ops.ravel_multi_index(wild, shape)
    with pytest.raises(ValueError, match="unravel_index: index 60 is out of bounds for array with"):
        ops.unravel_index(gp.from_numpy(np.array([60])), shape)


def test_helpers() -> None:
    rows = gp.from_numpy(np.array([2, 0]))
    columns = gp.from_numpy(np.array([True, False, True, True]))
    host = np.arange(12).reshape(3, 4)
    x = gp.from_numpy(host)
    want = host[np.ix_([2, 0], [True, False, True, True])]
    indexing.equal(x[ops.ix_(rows, columns)], want)
    indexing.equal(x[ops.tril_indices(3, 1, 4)], host[np.tril_indices(3, 1, 4)])
    indexing.equal(x[ops.triu_indices(3, -1, 4)], host[np.triu_indices(3, -1, 4)])
    indexing.equal(x[ops.diag_indices(3)], host[np.diag_indices(3)])
    with pytest.raises(ValueError, match="ix_: argument 0 has 2 dimensions"):
        ops.ix_(x)


def test_every_op_has_a_reference_and_a_kernel() -> None:
    for name, family, doc in _native.op_list():
        if family == "indexing":
            assert callable(getattr(_reference, name))
            assert doc
    files = {file for _, file, *_ in _native.builtin_kernels()}
    for file in ("move", "duplicates", "mask", "fill"):
        assert f"indexing/{file}.cuh" in files


@pytest.mark.parametrize(
    ("shape", "mask"),
    [
        ((1,), (0,)),
        ((3, 4), (0,)),
        ((3, 4), (0, 4)),
        ((3, 4), (3, 0)),
        ((3, 4), (0, 0)),
        ((3, 4, 5), (0, 4)),
    ],
)
def test_a_mask_axis_of_size_zero_fits_any_size(
    shape: tuple[int, ...], mask: tuple[int, ...]
) -> None:
    host = np.ones(shape)
    x = gp.from_numpy(host)
    key = gp.zeros(mask, gp.bool)
    assert x[key].shape == host[np.zeros(mask, bool)].shape
    x[key] = 2.0
    assert (x.to_numpy() == 1.0).all()


@pytest.mark.parametrize("mask", [(0, 2), (2, 0), (2,)])
def test_other_mask_axes_still_have_to_match(mask: tuple[int, ...]) -> None:
    with pytest.raises(IndexError, match="getitem: boolean index did not match"):
        gp.ones((3, 4))[gp.zeros(mask, gp.bool)]
