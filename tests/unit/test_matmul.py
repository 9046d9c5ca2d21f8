"""Products and contractions on CPU simulation, against plain NumPy."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from cases import matmul as cases
from cases.must_raise import Refused
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit.ops.matmul import (
    batched_matmul,
    dot,
    einsum,
    inner,
    kron,
    matmul,
    matrix_transpose,
    outer,
    tensordot,
    trace,
    vdot,
    vecdot,
)


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_case(case: cases.Case) -> None:
    cases.run_case(case)


@pytest.mark.parametrize("case", cases.MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: Refused) -> None:
    cases.run_must_raise(case)


def values(array: gp.GPUArray) -> Any:
    return array.to_numpy()


@st.composite
def operands(draw: st.DrawFn) -> tuple[Any, Any]:
    shapes = draw(
        hnp.mutually_broadcastable_shapes(signature="(n?,k),(k,m?)->(n?,m?)")
    ).input_shapes
    dtypes = [draw(st.sampled_from(("bool", *cases.INTEGERS, "float32", "float64", "complex64")))]
    dtypes.append(draw(st.sampled_from((dtypes[0], "int16", "float32"))))
    a, b = (
        draw(hnp.arrays(np.dtype(dtype), shape, elements=st.integers(0, 1)))
        for dtype, shape in zip(dtypes, shapes, strict=True)
    )
    return a, b


@settings(max_examples=150, deadline=None)
@given(pair=operands())
def test_as_numpy(pair: tuple[Any, Any]) -> None:
    """Shapes and dtypes, also mixed ones; small whole numbers, so that all results are exact."""
    want = np.asarray(np.matmul(*pair))
    got = values(matmul(gp.from_numpy(pair[0]), gp.from_numpy(pair[1])))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_mixed_dtypes_and_casting_out() -> None:
    a, b = np.arange(6, dtype=np.int8).reshape(2, 3), np.ones((3, 2), np.float32)
    out = gp.zeros((2, 2), "complex128")
    assert matmul(gp.from_numpy(a), gp.from_numpy(b), out=out) is out
    np.testing.assert_array_equal(values(out), (a @ b).astype(np.complex128))


@pytest.mark.parametrize("which", [0, 1])
def test_out_may_be_an_operand(which: int) -> None:
    hosts = [np.arange(9.0).reshape(3, 3), np.arange(9.0).reshape(3, 3)[::-1].copy()]
    arrays = [gp.from_numpy(x) for x in hosts]
    matmul(*arrays, out=arrays[which])
    np.testing.assert_array_equal(values(arrays[which]), hosts[0] @ hosts[1])


def test_use_tf32_is_taken_for_float32() -> None:
    x = gp.ones((2, 2))
    for flag in (None, True, False):
        np.testing.assert_array_equal(values(matmul(x, x, use_tf32=flag)), np.full((2, 2), 2.0))


def test_batched_matmul() -> None:
    a, b = np.arange(24.0).reshape(2, 3, 4), np.arange(40.0).reshape(2, 4, 5)
    np.testing.assert_array_equal(values(batched_matmul(gp.from_numpy(a), gp.from_numpy(b))), a @ b)
    with pytest.raises(ValueError, match=r"batched_matmul: b has shape \(4, 5\)"):
        batched_matmul(gp.from_numpy(a), gp.from_numpy(b[0]))
    with pytest.raises(ValueError, match="broadcast"):
        batched_matmul(gp.ones((2, 3, 4)), gp.ones((3, 4, 5)))


def test_matrix_transpose_is_a_view() -> None:
    x = gp.from_numpy(np.arange(24).reshape(2, 3, 4))
    y = matrix_transpose(x)
    assert y.shape == (2, 4, 3)
    np.testing.assert_array_equal(values(y), np.matrix_transpose(values(x)))
    assert matrix_transpose(y).is_contiguous()
    with pytest.raises(ValueError, match=r"matrix_transpose: x has shape \(3,\)"):
        matrix_transpose(gp.ones(3))


RNG = np.random.default_rng(5)
A, B = RNG.integers(-5, 5, (2, 3, 4)), RNG.integers(-5, 5, (4, 3, 5))


@pytest.mark.parametrize("axes", [0, 1, ([1], [1]), ((2, 1), (0, 1)), (2, 0), ([], []), (-1, -3)])
def test_tensordot(axes: Any) -> None:
    got = tensordot(gp.from_numpy(A), gp.from_numpy(B), axes=axes)
    np.testing.assert_array_equal(values(got), np.tensordot(A, B, axes=axes))
    assert got.is_contiguous()


@pytest.mark.parametrize(
    ("a", "b", "axes", "error"),
    [
        ((2, 3), (4, 5), 1, ValueError),
        ((2, 3), (4, 5), 2, ValueError),
        ((2, 3), (3, 5), ([1], [0, 1]), ValueError),
        ((2, 1), (2, 5), ([1], [0]), ValueError),  # size 1 does not broadcast
        ((2, 2), (2, 2), ([1, 1], [0, 0]), ValueError),
        ((2, 3), (3, 5), ([2], [0]), IndexError),
        ((2, 3), (3, 5), 5, IndexError),
        ((2, 3), (3, 5), -1, ValueError),
        ((2, 3), (3, 5), "x", TypeError),
    ],
)
def test_tensordot_must_raise(a: Any, b: Any, axes: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^tensordot: "):
        tensordot(gp.ones(a), gp.ones(b), axes=axes)


@pytest.mark.parametrize(
    ("function", "reference"),
    [(dot, np.dot), (inner, np.inner), (outer, np.outer), (kron, np.kron)],
)
@pytest.mark.parametrize(
    ("a", "b"),
    [((), ()), ((), (3, 2)), ((3,), ()), ((4,), (4,)), ((3, 4), (4,)), ((2, 3, 4), (5, 4, 4))],
)
def test_pairs(function: Any, reference: Any, a: Any, b: Any) -> None:
    x, y = RNG.integers(-5, 5, a), RNG.integers(-5, 5, b)
    got = values(function(gp.from_numpy(np.asarray(x)), gp.from_numpy(np.asarray(y))))
    want = np.asarray(reference(x, y))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("function", [dot, inner])
def test_pairs_not_aligned(function: Any) -> None:
    with pytest.raises(ValueError, match=r"shapes \(2, 3\) and \(4,\) not aligned"):
        function(gp.ones((2, 3)), gp.ones((4,)))


def test_vdot() -> None:
    a = (A + 1j * A[::-1]).astype(np.complex64)
    b = np.moveaxis(a, 0, -1).copy() * 1j
    np.testing.assert_allclose(values(vdot(gp.from_numpy(a), gp.from_numpy(b))), np.vdot(a, b))
    with pytest.raises(ValueError, match=r"^vdot: x1 has shape \(3,\)"):
        vdot(gp.ones(3), gp.ones(4))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float32", "complex128"])
@pytest.mark.parametrize("arguments", [(), (1,), (-2,), (0, 1, 2), (9,), (0, -1, 0)])
def test_trace(dtype: str, arguments: Any) -> None:
    x = A.astype(dtype)
    got, want = values(trace(gp.from_numpy(x), *arguments)), np.asarray(np.trace(x, *arguments))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_array_equal(got, want)


def test_trace_must_raise() -> None:
    with pytest.raises(ValueError, match="trace"):
        trace(gp.ones(3))
    with pytest.raises(ValueError, match="trace"):
        trace(gp.ones((3, 3)), 0, 1, 1)
    assert values(trace(gp.ones((3, 3), "int8"), dtype="int16")).dtype == np.int16


EINSUM = [
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,jk->ki", (2, 3), (3, 4)),
    ("ij,jk->", (2, 3), (3, 4)),
    ("ij,kj->ik", (2, 3), (4, 3)),
    ("ji,jk->ik", (3, 2), (3, 4)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iii->i", (3, 3, 3)),
    ("iij->ji", (3, 3, 2)),
    ("ij->", (3, 2)),
    ("ij->j", (3, 2)),
    ("ij->ji", (3, 2)),
    ("ji", (3, 2)),
    ("i,j", (3,), (2,)),
    ("i,i", (3,), (3,)),
    ("i,i->i", (3,), (3,)),
    ("ij,ij->ij", (3, 4), (3, 4)),
    ("ij,i->j", (3, 4), (3,)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("bqhd,bkhd->bhqk", (2, 3, 4, 5), (2, 6, 4, 5)),
    ("...ij,...jk", (4, 2, 3), (3, 2)),
    ("...ij,...jk->...ik", (4, 1, 2, 3), (5, 3, 2)),
    ("ij...,jk...->ik...", (2, 3, 5), (3, 2, 1)),
    ("a...,a...", (2, 3), (2, 4, 3)),
    ("...", (2, 3)),
    ("...->...", ()),
    ("i...->...i", (2, 3, 4)),
    ("...i->...", (2, 3, 4)),
    ("ab,bc,cd", (2, 3), (3, 4), (4, 5)),
    ("ab,bc,cd->da", (2, 3), (3, 4), (4, 5)),
    ("ab,cd,ef->", (2, 3), (4, 2), (1, 3)),
    ("ea,fb,abcd,gc,hd->efgh", (2, 3), (2, 3), (3, 3, 3, 3), (2, 3), (2, 3)),
    ("iij,jk->ik", (3, 3, 2), (2, 4)),
    ("ij,j", (3, 1), (2,)),
    ("ij,ij->i", (1, 4), (3, 1)),
    (",ij", (), (2, 2)),
    ("", ()),
    ("ij,kl->ik", (2, 3), (4, 5)),
    ("ij,jk", (2, 0), (0, 3)),
    ("ij,jk", (0, 3), (3, 2)),
    (" i j , j k -> i k ", (2, 3), (3, 4)),
    ("Ba,aB->", (2, 3), (3, 2)),
    ("abcdefgh,hgfedcba->", (2, 1, 2, 3, 1, 2, 2, 2), (2, 2, 2, 1, 3, 2, 1, 2)),
]


@pytest.mark.parametrize("dtype", ["int64", "float32", "complex64", "bool"])
@pytest.mark.parametrize("case", EINSUM, ids=lambda case: case[0])
def test_einsum(case: Any, dtype: str) -> None:
    hosts = [np.asarray(RNG.integers(-3, 3, shape)).astype(dtype) for shape in case[1:]]
    want = np.asarray(np.einsum(case[0], *hosts))
    arrays = [gp.from_numpy(x) for x in hosts]
    got = einsum(case[0], *arrays)
    assert (got.shape, got.dtype.name) == (want.shape, want.dtype.name)
    np.testing.assert_array_equal(values(got), want)
    out = gp.zeros(want.shape, dtype)
    assert einsum(case[0], *arrays, out=out) is out
    np.testing.assert_array_equal(values(out), want)


@st.composite
def contractions(draw: st.DrawFn) -> tuple[str, list[Any]]:
    sizes = {label: draw(st.integers(0, 3)) for label in "abcd"}
    terms = draw(st.lists(st.text("abcd", max_size=4), min_size=1, max_size=3))
    used = sorted(set("".join(terms)))
    output = (
        draw(st.permutations(draw(st.lists(st.sampled_from(used), unique=True)))) if used else []
    )
    hosts = [
        draw(hnp.arrays(np.int64, tuple(sizes[x] for x in term), elements=st.integers(-3, 3)))
        for term in terms
    ]
    return f"{','.join(terms)}->{''.join(output)}", hosts


@settings(max_examples=200, deadline=None)
@given(case=contractions())
def test_einsum_as_numpy(case: tuple[str, list[Any]]) -> None:
    subscripts, hosts = case
    got = einsum(subscripts, *(gp.from_numpy(x) for x in hosts))
    np.testing.assert_array_equal(values(got), np.einsum(subscripts, *hosts))


def test_einsum_with_lists() -> None:
    a, b = RNG.integers(-3, 3, (2, 3)), RNG.integers(-3, 3, (5, 3, 4))
    x, y = gp.from_numpy(a), gp.from_numpy(b)
    np.testing.assert_array_equal(
        values(einsum(x, [0, 1], y, [2, 1, 3])), np.einsum(a, [0, 1], b, [2, 1, 3])
    )
    dots = [..., 1, 3]
    np.testing.assert_array_equal(
        values(einsum(x, [0, 1], y, dots, [..., 3, 0])), np.einsum(a, [0, 1], b, dots, [..., 3, 0])
    )
    np.testing.assert_array_equal(values(einsum(x, [1, 0])), np.einsum(a, [1, 0]))


def test_einsum_of_one_operand_is_a_view() -> None:
    x = gp.zeros((3, 3), "float32")
    line = einsum("ii->i", x)
    assert line.shape == (3,)
    assert not line.is_contiguous()


def test_einsum_promotes() -> None:
    a, b, c = np.ones(2, np.int8), np.ones(2, np.float32), np.ones(2, np.complex64)
    assert einsum("i,i,i", *(gp.from_numpy(x) for x in (a, b, c))).dtype.name == "complex64"


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("ij,jk", (3, 2), (3, 3)), ValueError, "broadcast together"),
        (("ii", (3, 1)), ValueError, "repeated index"),
        (("ij,jk->iz", (3, 2), (2, 3)), ValueError, "'z' never appeared"),
        (("ij,jk->ii", (3, 2), (2, 3)), ValueError, "'i' appears more than once"),
        (("ij", (3, 2, 3)), ValueError, "more dimensions than subscripts"),
        (("ijk", (3, 2)), ValueError, "too many subscripts for operand 0"),
        (("ij,jk", (3, 2)), ValueError, "names 2 operands, 1"),
        (("ij", (3, 2), (3, 2)), ValueError, "names 1 operands, 2"),
        (("i...->i", (3, 2)), ValueError, "output subscripts have none"),
        (("i?", (3, 2)), ValueError, "invalid subscript '[?]'"),
        (("......", (3, 2)), ValueError, "more than one"),
        (((3, 2), [0, 60]), ValueError, "expected 0 to 51"),
        (((3, 2), [0, "a"]), TypeError, "expected an int"),
        (("ij",), ValueError, "names 1 operands, 0"),
        ((), ValueError, "expected subscripts"),
    ],
)
def test_einsum_must_raise(arguments: Any, error: type[Exception], words: str) -> None:
    made = [gp.ones(x) if isinstance(x, tuple) else x for x in arguments]
    with pytest.raises(error, match=f"^einsum: .*{words}"):
        einsum(*made)


def test_einsum_refuses_numpy_arrays_and_bad_out() -> None:
    with pytest.raises(TypeError, match="operand 1"):
        einsum("i,i", gp.ones(2), np.ones(2))
    with pytest.raises(ValueError, match=r"out has shape \(3,\)"):
        einsum("ij->i", gp.ones((2, 2)), out=gp.ones(3))
    with pytest.raises(TypeError, match="out has dtype int8"):
        einsum("ij->i", gp.ones((2, 2)), out=gp.ones(2, "int8"))


def test_in_a_graph() -> None:
    a, out = gp.ones((2, 3)), gp.zeros((2, 2))
    graph = gp.CudaGraph()
    with graph:
        matmul(a, matrix_transpose(a), out=out)
    assert not values(out).any()
    graph.replay()
    np.testing.assert_array_equal(values(out), np.full((2, 2), 3.0))
    assert vecdot(a, a).shape == (2,)
