"""Manipulation on CPU simulation: the case table, properties against NumPy, views, graphs."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from cases import manipulation
from cases.manipulation import to_host
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit import _native


@pytest.mark.parametrize("case", manipulation.CASES, ids=str)
def test_case(case: manipulation.Case) -> None:
    manipulation.run_case(case)


@pytest.mark.parametrize("case", manipulation.MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: manipulation.MustRaise) -> None:
    manipulation.run_must_raise(case)


arrays = hnp.arrays(
    st.sampled_from(["?", "i1", "u2", "i4", "f4", "c16"]).map(np.dtype),
    hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=5),
)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), host=arrays)
def test_chains_of_views_as_numpy(data: st.DataObject, host: Any) -> None:
    """Any chain of view functions gives NumPy's values, shape and strides."""
    x = gp.from_numpy(host)
    for _ in range(data.draw(st.integers(1, 4))):
        rank = host.ndim
        steps = ["flip", "reshape", "expand"]
        steps += ["permute", "slice", "squeeze"] if rank else []
        step = data.draw(st.sampled_from(steps))
        if step == "permute":
            order = data.draw(st.permutations(range(rank)))
            host, x = host.transpose(order), gp.permute_dims(x, order)
        elif step == "flip":
            axes = tuple(data.draw(st.sets(st.integers(0, rank - 1))) if rank else ())
            host, x = np.flip(host, axes), gp.flip(x, axis=axes)
        elif step == "expand" and rank < 6:
            axis = data.draw(st.integers(-rank - 1, rank))
            host, x = np.expand_dims(host, axis), gp.expand_dims(x, axis=axis)
        elif step == "slice":
            axis = data.draw(st.integers(0, rank - 1))
            cut = slice(data.draw(st.integers(0, 3)), None, data.draw(st.integers(1, 2)))
            first, stop, by = cut.indices(host.shape[axis])
            count = len(range(first, stop, by))
            host = host[(slice(None),) * axis + (cut,)]
            x = _native.slice_axis(x, axis, first if count else 0, count, by)
        elif step == "squeeze":
            host, x = np.squeeze(host), gp.squeeze(x)
        elif step == "reshape":
            host, x = host.reshape(-1), gp.reshape(x, -1)
        np.testing.assert_array_equal(to_host(x), host)
        assert x.shape == host.shape
        assert x.is_contiguous() == host.flags.c_contiguous


@settings(max_examples=100, deadline=None)
@given(data=st.data(), host=arrays)
def test_reshape_is_a_view_where_numpys_is(data: st.DataObject, host: Any) -> None:
    order = data.draw(st.permutations(range(host.ndim)))
    view, x = host.transpose(order), gp.permute_dims(gp.from_numpy(host), order)
    factors = data.draw(st.sampled_from([(-1,), (2, -1), (-1, 3), (1, -1, 2), (4, 5, -1)]))
    known = -int(np.prod(factors))
    if known == 0 or host.size % known or host.size == 0:
        return
    want = view.reshape(factors)
    got = gp.reshape(x, factors)
    np.testing.assert_array_equal(to_host(got), want)
    assert gp.shares_memory(got, x) == np.shares_memory(want, view)


@settings(max_examples=100, deadline=None)
@given(
    data=st.data(),
    host=hnp.arrays(np.int32, hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)),
    mode=st.sampled_from(["constant", "edge", "reflect", "symmetric", "wrap"]),
)
def test_pad_as_numpy(data: st.DataObject, host: Any, mode: str) -> None:
    width = st.tuples(st.integers(0, 17), st.integers(0, 17))
    widths = data.draw(st.lists(width, min_size=host.ndim, max_size=host.ndim))
    got = gp.pad(gp.from_numpy(host), widths, mode=mode)
    np.testing.assert_array_equal(got.to_numpy(), np.pad(host, widths, mode=mode))


@pytest.mark.parametrize("width", [-1, 10**30, [[0, 0], [0, 2**63]], [[0, -3], [0, 0]]])
def test_pad_widths_out_of_range(width: Any) -> None:
    with pytest.raises(ValueError, match="pad: pad_width is"):
        gp.pad(gp.zeros((2, 3)), width)


@settings(max_examples=100, deadline=None)
@given(
    data=st.data(),
    host=hnp.arrays(np.int16, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)),
)
def test_roll_and_repeat_and_tile_as_numpy(data: st.DataObject, host: Any) -> None:
    x = gp.from_numpy(host)
    axes = data.draw(st.lists(st.integers(-host.ndim, host.ndim - 1), max_size=5).map(tuple))
    shifts = data.draw(st.lists(st.integers(-9, 9), min_size=len(axes), max_size=len(axes)))
    if axes:
        got = gp.roll(x, tuple(shifts), axis=axes)
        np.testing.assert_array_equal(got.to_numpy(), np.roll(host, shifts, axis=axes))
    counts = data.draw(st.lists(st.integers(0, 3), max_size=5).map(tuple))
    np.testing.assert_array_equal(gp.tile(x, counts).to_numpy(), np.tile(host, counts))
    count = data.draw(st.integers(0, 3))
    axis = data.draw(st.none() | st.integers(-host.ndim, host.ndim - 1))
    got = gp.repeat(x, count, axis=axis)
    np.testing.assert_array_equal(got.to_numpy(), np.repeat(host, count, axis=axis))


def test_concat_promotes_and_casts() -> None:
    a, b = np.array([1, 2], np.int16), np.array([3, 4], np.uint16)
    c = np.array([0.5], np.float32)
    x, y, z = (gp.from_numpy(h) for h in (a, b, c))
    for parts, hosts in (((x, y), (a, b)), ((x, y, z), (a, b, c)), ((z, x), (c, a))):
        got = gp.concat(parts)
        want = np.concatenate(hosts)
        assert got.dtype.name == want.dtype.name
        np.testing.assert_array_equal(got.to_numpy(), want)
    got = gp.concat([x, y], dtype="float64")
    assert got.dtype is gp.float64
    out = gp.zeros(4, "float32")
    assert gp.concat([x, y], out=out) is out
    assert out.to_numpy().tolist() == [1, 2, 3, 4]
    with pytest.raises(TypeError, match="out has dtype int16"):
        gp.concat([z, z], out=gp.zeros(2, "int16"))
    with pytest.raises(TypeError, match=r"no common dtype of float8_e4m3fn and float32"):
        gp.concat([gp.zeros(2, "float8_e4m3fn"), gp.zeros(2)])


@pytest.mark.parametrize("op", ["concat", "stack", "vstack", "hstack", "dstack", "column_stack"])
def test_joins_refuse_what_is_no_array(op: str) -> None:
    with pytest.raises(TypeError, match=f"^{op}: arrays"):
        getattr(gp, op)([gp.ones(2), np.ones(2)])
    with pytest.raises(TypeError, match=f"^{op}: arrays"):
        getattr(gp, op)([1.0, 2.0])


def test_views_share_memory_and_copies_do_not() -> None:
    x = gp.from_numpy(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    assert gp.shares_memory(x, gp.permute_dims(x, (2, 0, 1)))
    assert not gp.shares_memory(x, gp.copy(x))
    assert not gp.shares_memory(x, gp.roll(x, 1))
    even, odd = _native.slice_axis(x, 2, 0, 2, 2), _native.slice_axis(x, 2, 1, 2, 2)
    assert gp.may_share_memory(even, odd)
    assert not gp.shares_memory(even, odd)
    gp.copyto(even, 7)
    assert to_host(x)[:, :, ::2].tolist() == [[[7, 7]] * 3] * 2
    assert to_host(odd).tolist() == [[[1, 3], [5, 7], [9, 11]], [[13, 15], [17, 19], [21, 23]]]


def test_methods_of_0_2() -> None:
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = gp.from_numpy(host)
    np.testing.assert_array_equal(to_host(x.T), host.T)
    np.testing.assert_array_equal(to_host(x.transpose()), host.T)
    np.testing.assert_array_equal(to_host(x.transpose(1, 0)), host.T)
    np.testing.assert_array_equal(to_host(x.transpose((1, 0))), host.T)
    np.testing.assert_array_equal(x.reshape(2, 6).to_numpy(), host.reshape(2, 6))
    np.testing.assert_array_equal(x.reshape((2, -1)).to_numpy(), host.reshape(2, 6))
    np.testing.assert_array_equal(to_host(x.narrow(1, 2)), host[:, 1:3])
    np.testing.assert_array_equal(to_host(x.reshape(12).narrow(3, 5)), host.reshape(-1)[3:8])
    np.testing.assert_array_equal(x.slice_rows(2).to_numpy(), host[:2])
    np.testing.assert_array_equal(x.view((4, 3)).to_numpy(), host.reshape(4, 3))
    assert gp.shares_memory(x.view((4, 3)), x)
    assert x.astype("float32") is x
    assert x.astype("float32", copy=True) is not x
    assert x.astype(gp.int8).dtype is gp.int8
    assert x.is_contiguous()
    assert not x.T.is_contiguous()
    assert x.T.contiguous().is_contiguous()
    np.testing.assert_array_equal(x.T.clone().to_numpy(), host.T)
    assert x.last_access > 1.6e9
    for call in (lambda: x.narrow(3, 2), lambda: x.slice_rows(4), lambda: x.view((5,))):
        with pytest.raises(ValueError, match=r"narrow|slice_rows|reshape"):
            call()


def test_functions_of_0_2() -> None:
    host = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = gp.from_numpy(host)
    t = gp.ops.tensor
    np.testing.assert_array_equal(t.concat_axis0(x, x).to_numpy(), np.concatenate([host, host]))
    np.testing.assert_array_equal(
        t.repeat_interleave_axis1(x, 2).to_numpy(), np.repeat(host, 2, axis=1)
    )
    four = x.reshape(1, 2, 3, 4)
    for name, source, axes in (
        ("transpose_3d_021", x, (1, 0, 2)),
        ("transpose_3d_012", x, (0, 2, 1)),
        ("transpose_4d_0213", four, (0, 2, 1, 3)),
        ("transpose_4d_0132", four, (0, 1, 3, 2)),
    ):
        want = to_host(source).transpose(axes)
        got = getattr(t, name)(source)
        np.testing.assert_array_equal(got.to_numpy(), want)
        out = gp.zeros(want.shape)
        assert getattr(t, name)(source, out=out) is None
        np.testing.assert_array_equal(out.to_numpy(), want)
        with pytest.raises(ValueError, match=f"^{name}: x has shape"):
            getattr(t, name)(gp.ones(3))
        with pytest.raises(ValueError, match=f"^{name}: out has shape"):
            getattr(t, name)(source, out=gp.ones(3))
    assert t.reshape_copy(x, (4, 6)).shape == (4, 6)
    out = gp.zeros((6, 4))
    assert t.reshape_copy(x, out=out) is None
    np.testing.assert_array_equal(out.to_numpy(), host.reshape(6, 4))
    with pytest.raises(ValueError, match="either new_shape or out"):
        t.reshape_copy(x)
    t.copy_to(x, out)
    for name, given_, wanted in (
        ("cast_f32_to_bf16", "float32", "bfloat16"),
        ("cast_f32_to_f16", "float32", "float16"),
        ("cast_bf16_to_f32", "bfloat16", "float32"),
        ("cast_f16_to_f32", "float16", "float32"),
    ):
        got = getattr(t, name)(x.astype(given_))
        assert got.dtype.name == wanted
        np.testing.assert_array_equal(got.astype("float32").to_numpy(), host)
        with pytest.raises(TypeError, match=f"^{name}: src has dtype int8"):
            getattr(t, name)(x.astype("int8"))


@pytest.mark.parametrize(
    ("given_", "wanted", "shape"),
    [
        ("float32", "int32", (2, 6)),
        ("float32", "uint8", (2, 24)),
        ("uint8", "float64", (2, 1)),
        ("complex64", "float32", (2, 12)),
        ("int16", "bfloat16", (2, 6)),
    ],
)
def test_view_as_another_dtype(given_: str, wanted: str, shape: tuple[int, int]) -> None:
    count = shape[1] * np.dtype(manipulation.numpy_type(wanted)).itemsize
    host = manipulation.host_array((2, count), "uint8", 3).view(manipulation.numpy_type(given_))
    x = gp.from_numpy(host)
    got = x.view(gp.DataType.from_string(wanted))
    assert got.shape == shape
    want = host.view(manipulation.numpy_type(wanted))
    assert got.to_numpy().tobytes() == want.tobytes()
    assert gp.shares_memory(got, x)
    assert x.view(wanted).dtype.name == wanted


def test_views_that_bytes_forbid() -> None:
    x = gp.zeros((3, 5), "uint8")
    for call in (
        lambda: x.view("float32"),
        lambda: x.T.view("uint16"),
        lambda: gp.zeros((), "float32").view("uint8"),
        lambda: _native.slice_axis(gp.zeros(9, "uint8"), 0, 1, 8).view("uint16"),
    ):
        with pytest.raises(ValueError, match=r"^view:"):
            call()
    assert gp.zeros((2, 4), "int4").view("uint8").shape == (2, 2)
    assert gp.zeros((2, 2), "uint8").view("uint4").shape == (2, 4)


def test_real_and_imag_are_views() -> None:
    host = np.array([[1 + 2j, 3 - 4j]], np.complex64)
    x = gp.from_numpy(host)
    np.testing.assert_array_equal(to_host(x.real), host.real)
    np.testing.assert_array_equal(to_host(x.imag), host.imag)
    x.imag = 5
    x.real = gp.from_numpy(np.array([7, 8], np.float32))
    np.testing.assert_array_equal(x.to_numpy(), [[7 + 5j, 8 + 5j]])
    y = gp.ones(3)
    assert y.real.device_ptr == y.device_ptr
    assert y.imag.to_numpy().tolist() == [0, 0, 0]
    with pytest.raises(TypeError, match="no imaginary part"):
        y.imag = 1


def test_mt_and_t() -> None:
    x = gp.zeros((2, 3, 4))
    assert x.mT.shape == (2, 4, 3)
    assert x.T.shape == (4, 3, 2)
    with pytest.raises(ValueError, match="mT"):
        _ = gp.zeros(3).mT


def test_small_methods() -> None:
    x = gp.from_numpy(np.arange(6, dtype=np.int32).reshape(2, 3))
    x.fill(4)
    assert x.to_numpy().tolist() == [[4] * 3] * 2
    x.T.fill(gp.asarray(2))
    assert x.to_numpy().tolist() == [[2] * 3] * 2
    assert x.tobytes() == x.to_numpy().tobytes()
    assert x.flatten().shape == (6,)
    assert not gp.shares_memory(x.flatten(), x)
    assert gp.shares_memory(x.ravel(), x)
    assert x.swapaxes(0, 1).shape == (3, 2)
    assert gp.zeros((1, 3, 1)).squeeze().shape == (3,)
    assert x.diagonal().shape == (2,)
    assert x.repeat(2, 1).shape == (2, 6)
    assert x.copy().to_numpy().tolist() == [[2] * 3] * 2
    assert gp.ndim(x) == 2
    assert gp.shape([[1, 2]]) == (1, 2)
    assert gp.size(x) == 6
    assert gp.size(x, 1) == 3
    assert gp.broadcast_shapes((3, 1), (4,), ()) == (3, 4)
    assert gp.broadcast_shapes() == ()
    with pytest.raises(ValueError, match=r"broadcast_shapes.*\(3,\).*\(4,\)"):
        gp.broadcast_shapes((3,), (4,))


def test_to_device() -> None:
    x = gp.ones(3)
    assert x.to_device("cpu").device == "cpu"
    assert x.to_device(x.device, stream=gp.Stream()).to_numpy().tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="to_device: device"):
        x.to_device("tpu")


def test_in_a_graph() -> None:
    x = gp.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    joined, padded = gp.empty((4, 3)), gp.empty((4, 5))
    lower, ramp = gp.empty((2, 3)), gp.empty(3)
    graph = gp.CudaGraph()
    with graph:
        gp.concat([x, gp.roll(x, 1, axis=1)], out=joined)
        gp.copyto(padded, gp.pad(x, 1, mode="edge"))
        gp.copyto(lower, gp.tril(x))
        gp.copyto(ramp, gp.add(gp.arange(3, dtype="float32"), gp.linspace(0, 1, 3)))
    gp.copyto(x, gp.from_numpy(np.arange(6, 12, dtype=np.float32).reshape(2, 3)))
    graph.replay()
    graph.synchronize()
    host = x.to_numpy()
    np.testing.assert_array_equal(joined.to_numpy(), np.concatenate([host, np.roll(host, 1, 1)]))
    np.testing.assert_array_equal(padded.to_numpy(), np.pad(host, 1, mode="edge"))
    np.testing.assert_array_equal(lower.to_numpy(), np.tril(host))
    assert ramp.to_numpy().tolist() == [0, 1.5, 3]


@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin"]
)
def test_reducing_methods_as_numpy(name: str) -> None:
    host = np.array([[3, 1, 2], [0, 5, 4]], np.float64)
    x = gp.from_numpy(host)
    for options in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}):
        got, want = getattr(x, name)(**options), np.asarray(getattr(host, name)(**options))
        assert got.shape == want.shape
        np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-15)
    out = gp.empty((3,), getattr(x, name)(0).dtype)
    assert getattr(x, name)(axis=0, out=out) is out
    np.testing.assert_allclose(out.to_numpy(), getattr(host, name)(axis=0), rtol=1e-15)


def test_other_methods_as_numpy() -> None:
    host = np.array([[3, 1, 2], [0, 5, 4]], np.float32)
    x = gp.from_numpy(host)
    for name, args in (
        ("cumsum", ()),
        ("cumsum", (1,)),
        ("cumprod", (0,)),
        ("clip", (1, 4)),
        ("clip", (2,)),
        ("round", (1,)),
        ("conj", ()),
        ("conjugate", ()),
        ("argsort", (1,)),
        ("take", ([1, 0], 1)),
        ("take", ([1, 5],)),
        ("trace", ()),
        ("dot", (x.T,)),
        ("repeat", ([1, 2, 0], 1)),
    ):
        theirs = [to_host(a) if isinstance(a, gp.GPUArray) else a for a in args]
        got, want = getattr(x, name)(*args), np.asarray(getattr(host, name)(*theirs))
        np.testing.assert_array_equal(to_host(got), want)
        assert got.dtype.name == want.dtype.name
    for got, want in zip(x.nonzero(), host.nonzero(), strict=True):
        np.testing.assert_array_equal(got.to_numpy(), want)
    np.testing.assert_array_equal(x.var(ddof=1).to_numpy(), host.var(ddof=1))
    y = x.copy()
    assert y.sort() is None
    np.testing.assert_array_equal(y.to_numpy(), np.sort(host))
    y.T.sort(descending=True)
    np.testing.assert_array_equal(y.to_numpy(), np.flip(np.sort(np.sort(host), axis=0), 0))


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    host=hnp.arrays(np.int16, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)),
)
def test_repeat_by_counts_as_numpy(data: st.DataObject, host: Any) -> None:
    axis = data.draw(st.none() | st.integers(-host.ndim, host.ndim - 1))
    size = host.size if axis is None else host.shape[axis]
    counts = data.draw(hnp.arrays(np.int32, size, elements=st.integers(0, 3)))
    want = np.repeat(host, counts, axis=axis)
    x = gp.from_numpy(host)
    np.testing.assert_array_equal(gp.repeat(x, gp.from_numpy(counts), axis=axis).to_numpy(), want)
    np.testing.assert_array_equal(gp.repeat(x, counts.tolist(), axis=axis).to_numpy(), want)
    one = np.array([2])
    want = np.repeat(host, one, axis=axis)
    np.testing.assert_array_equal(gp.repeat(x, gp.from_numpy(one), axis=axis).to_numpy(), want)


def test_repeat_by_bad_counts() -> None:
    x = gp.ones(3)
    for counts, error in (
        ([1, -1, 2], ValueError),
        ([1, 2], ValueError),
        ([[1], [2], [3]], ValueError),
        ([1.0, 2.0, 3.0], TypeError),
    ):
        for given_ in (counts, gp.asarray(counts)):
            with pytest.raises(error, match=r"^repeat: repeats has"):
                gp.repeat(x, given_)


def test_comparisons_as_numpy() -> None:
    a = np.array([1.0, np.nan, np.inf, 0.0, 1e-9, 5], np.float32)
    b = np.array([1.00001, np.nan, np.inf, 1e-9, 0.0, 6], np.float32)
    x, y = gp.from_numpy(a), gp.from_numpy(b)
    for options in ({}, {"equal_nan": True}, {"rtol": 0.5}, {"atol": 2}):
        np.testing.assert_array_equal(
            gp.isclose(x, y, **options).to_numpy(), np.isclose(a, b, **options)
        )
        got = gp.allclose(x, y, **options)
        assert got.shape == ()
        assert bool(got) == np.allclose(a, b, **options)
    for left, right in ((a, a), (a[:1], a[:1]), (a, a[:2]), (a[:1], np.ones((2, 1), np.float32))):
        p, q = gp.from_numpy(left), gp.from_numpy(right)
        assert bool(gp.array_equal(p, q)) == np.array_equal(left, right)
        assert bool(gp.array_equal(p, q, equal_nan=True)) == np.array_equal(
            left, right, equal_nan=True
        )
        assert bool(gp.array_equiv(p, q)) == np.array_equiv(left, right)
    assert gp.isclose(
        gp.asarray([250], dtype="uint8"), gp.asarray([251], dtype="uint8")
    ).tolist() == [False]
