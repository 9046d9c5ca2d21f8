"""Cases of creation and manipulation: one body per call, run on NumPy and on us."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pygpukit as gp
from cases.elementwise import COMPUTE
from cases.tolerance import assert_close
from pygpukit import _native

DTYPES = (*COMPUTE, "float8_e4m3fn", "float8_e5m2")
LAYOUTS = ("contiguous", "transposed", "reversed", "step", "broadcast")

Shape = tuple[int, ...]


def numpy_type(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def host_array(shape: Shape, dtype: str, seed: int) -> Any:
    """Every bit pattern may occur: rearranging must not look at values."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    type_ = numpy_type(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    whole = rng.integers(0, 128, count * type_.itemsize, dtype=np.uint8)
    values = whole.view(type_).reshape(shape)
    values[np.isnan(values.astype(np.complex128))] = 1  # NaN is not equal to itself
    return values


def on_device(host: Any, layout: str, device: str | None) -> gp.GPUArray:
    """An array with the elements of `host` in another order in memory."""
    if layout == "transposed":
        return gp.permute_dims(
            gp.from_numpy(host.T, device=device), tuple(reversed(range(host.ndim)))
        )
    if layout == "reversed":
        return gp.flip(gp.from_numpy(np.flip(host), device=device))
    if layout == "step" and host.ndim > 0:
        wide = gp.from_numpy(np.repeat(host, 3, axis=-1), device=device)
        return _native.slice_axis(wide, -1, min(1, wide.shape[-1]), host.shape[-1], 3)
    if layout == "broadcast" and host.ndim > 0 and host.shape[0] > 0:
        host[...] = host[:1]
        return gp.broadcast_to(gp.from_numpy(host[:1], device=device), host.shape)
    return gp.from_numpy(host, device=device)


def to_host(x: gp.GPUArray) -> Any:
    return gp.ascontiguousarray(x).to_numpy()


@dataclass(frozen=True)
class Op:
    """`call` gets NumPy or pygpukit and one array per shape."""

    name: str
    call: Callable[..., Any]
    shapes: tuple[Shape, ...]
    view: bool = False  # never copies

    def __str__(self) -> str:
        return f"{self.name}-{self.shapes}".replace(" ", "")


def _ops() -> Iterator[Op]:
    shapes: tuple[Shape, ...] = ((), (0,), (1,), (33,), (4099,), (3, 0, 5), (7, 11, 13))
    for shape in shapes:
        yield Op("flip", lambda xp, x: xp.flip(x), (shape,), view=True)
        yield Op("transpose", lambda xp, x: xp.transpose(x), (shape,), view=True)
        yield Op("ravel", lambda xp, x: xp.ravel(x), (shape,))
        yield Op("copy", lambda xp, x: xp.copy(x), (shape,))
        yield Op("squeeze", lambda xp, x: xp.squeeze(x), (shape,), view=True)
        yield Op("roll", lambda xp, x: xp.roll(x, 5), (shape,))
        yield Op("tile 2", lambda xp, x: xp.tile(x, 2), (shape,))
        yield Op("tile 2 1 3", lambda xp, x: xp.tile(x, (2, 1, 3)), (shape,))
        yield Op("repeat", lambda xp, x: xp.repeat(x, 3), (shape,))
        yield Op("stack", lambda xp, *xs: xp.stack(xs), (shape,) * 3)
        yield Op("concat flat", lambda xp, *xs: xp.concat(xs, axis=None), (shape, (2, 2)))
        yield Op("diagflat", lambda xp, x: xp.diagflat(x, 2), ((*shape[:1],),))
        yield Op("atleast_1d", lambda xp, x: xp.atleast_1d(x), (shape,), view=True)
        yield Op("atleast_2d", lambda xp, x: xp.atleast_2d(x), (shape,), view=True)
        yield Op("atleast_3d", lambda xp, x: xp.atleast_3d(x), (shape,), view=True)
    yield from _joins()
    yield from _axes()
    yield from _pads()
    yield from _matrices()


def _joins() -> Iterator[Op]:
    yield Op("concat 0", lambda xp, *xs: xp.concat(xs), ((3, 5), (0, 5), (31, 5)))
    yield Op("concat 1", lambda xp, *xs: xp.concat(xs, axis=1), ((3, 5), (3, 1), (3, 33)))
    yield Op("concat -1", lambda xp, *xs: xp.concatenate(xs, axis=-1), ((2, 3, 4), (2, 3, 1)))
    # More arrays than one launch takes; rows longer than a block's part; rows of odd bytes.
    yield Op("concat many", lambda xp, *xs: xp.concat(xs, axis=1), ((3, 2), (3, 0), (3, 5)) * 13)
    yield Op("concat long", lambda xp, *xs: xp.concat(xs), ((4099,), (1,), (64,), (2048,)))
    yield Op("concat tiles", lambda xp, *xs: xp.concat(xs, axis=1), ((64, 64),) * 4)
    yield Op("concat one", lambda xp, x: xp.concat([x]), ((33,),))
    yield Op("stack 1", lambda xp, *xs: xp.stack(xs, axis=1), ((4, 3),) * 2)
    yield Op("stack -1", lambda xp, *xs: xp.stack(xs, axis=-1), ((4, 3),) * 2)
    yield Op("vstack", lambda xp, *xs: xp.vstack(xs), ((4,), (2, 4)))
    yield Op("hstack", lambda xp, *xs: xp.hstack(xs), ((4,), (3,)))
    yield Op("hstack 2", lambda xp, *xs: xp.hstack(xs), ((4, 2), (4, 3)))
    yield Op("dstack", lambda xp, *xs: xp.dstack(xs), ((4, 2), (4, 2)))
    yield Op("column_stack", lambda xp, *xs: xp.column_stack(xs), ((4,), (4, 2)))
    yield Op("append", lambda xp, *xs: xp.append(*xs), ((4,), (4, 2)))
    yield Op("append 0", lambda xp, *xs: xp.append(*xs, axis=0), ((1, 2), (4, 2)))
    yield Op("unstack", lambda xp, x: xp.unstack(x, axis=1), ((3, 4, 2),), view=True)
    yield Op("split", lambda xp, x: xp.split(x, 3, axis=1), ((2, 9),), view=True)
    yield Op("split at", lambda xp, x: xp.split(x, [2, 3, 20, 1], axis=-1), ((2, 9),), view=True)
    yield Op("array_split", lambda xp, x: xp.array_split(x, 4), ((10, 2),), view=True)
    yield Op("hsplit", lambda xp, x: xp.hsplit(x, 2), ((4, 6),), view=True)
    yield Op("vsplit", lambda xp, x: xp.vsplit(x, [1]), ((4, 6),), view=True)
    yield Op("dsplit", lambda xp, x: xp.dsplit(x, 2), ((2, 3, 4),), view=True)
    yield Op("broadcast_arrays", lambda xp, *xs: xp.broadcast_arrays(*xs), ((3, 1), (4,), ()))
    yield Op("meshgrid", lambda xp, *xs: xp.meshgrid(*xs), ((3,), (4,), (2,)))
    yield Op("meshgrid ij", lambda xp, *xs: xp.meshgrid(*xs, indexing="ij"), ((3,), (4,)))
    yield Op("meshgrid sparse", lambda xp, *xs: xp.meshgrid(*xs, sparse=True), ((3,), (4,)))
    yield Op("meshgrid one", lambda xp, *xs: xp.meshgrid(*xs), ((3,),))


def _axes() -> Iterator[Op]:
    one: tuple[Shape, ...] = ((2, 3, 4, 5),)
    yield Op("permute", lambda xp, x: xp.permute_dims(x, (2, 0, -1, 1)), one, view=True)
    yield Op("moveaxis", lambda xp, x: xp.moveaxis(x, (0, -1), (2, 0)), one, view=True)
    yield Op("moveaxis one", lambda xp, x: xp.moveaxis(x, 1, -1), one, view=True)
    yield Op("swapaxes", lambda xp, x: xp.swapaxes(x, 1, -1), one, view=True)
    yield Op("rollaxis", lambda xp, x: xp.rollaxis(x, 2), one, view=True)
    yield Op("rollaxis 4", lambda xp, x: xp.rollaxis(x, 1, 4), one, view=True)
    yield Op("expand", lambda xp, x: xp.expand_dims(x, axis=(0, -1, 2)), one, view=True)
    yield Op("squeeze 1", lambda xp, x: xp.squeeze(x, axis=(1, -1)), ((2, 1, 3, 1),), view=True)
    yield Op("flip 1", lambda xp, x: xp.flip(x, axis=1), one, view=True)
    yield Op("flip 0 -1", lambda xp, x: xp.flip(x, axis=(0, -1)), one, view=True)
    yield Op("flipud", lambda xp, x: xp.flipud(x), one, view=True)
    yield Op("fliplr", lambda xp, x: xp.fliplr(x), one, view=True)
    for k in range(-1, 5):
        yield Op(f"rot90 {k}", lambda xp, x, k=k: xp.rot90(x, k), one, view=True)
        yield Op(f"rot90 {k} 2 0", lambda xp, x, k=k: xp.rot90(x, k, axes=(2, 0)), one, view=True)
    yield Op("broadcast_to", lambda xp, x: xp.broadcast_to(x, (4, 3, 5)), ((3, 1),), view=True)
    yield Op("broadcast to 0", lambda xp, x: xp.broadcast_to(x, (2, 0)), ((2, 1),), view=True)
    yield Op("reshape", lambda xp, x: xp.reshape(x, (5, -1, 2)), one)
    yield Op("reshape copy", lambda xp, x: xp.reshape(x, (6, 20), copy=True), one)
    yield Op("reshape 0", lambda xp, x: xp.reshape(x, (4, 0)), ((0, 3),))
    yield Op("roll 1", lambda xp, x: xp.roll(x, -2, axis=2), one)
    yield Op("roll all", lambda xp, x: xp.roll(x, (1, 2, 3, 4), axis=(0, 1, 2, 3)), one)
    yield Op("roll same axis", lambda xp, x: xp.roll(x, (1, 2), axis=(1, 1)), one)
    yield Op("roll one shift", lambda xp, x: xp.roll(x, 7, axis=(1, 3)), one)
    yield Op("roll far", lambda xp, x: xp.roll(x, -(10**12) + 1, axis=1), one)
    yield Op("repeat 0", lambda xp, x: xp.repeat(x, 2, axis=0), one)
    yield Op("repeat -1", lambda xp, x: xp.repeat(x, 3, axis=-1), one)
    yield Op("repeat none", lambda xp, x: xp.repeat(x, 0, axis=1), one)
    yield Op("tile 0", lambda xp, x: xp.tile(x, (1, 0, 2)), ((2, 3),))
    yield Op("tile ()", lambda xp, x: xp.tile(x, ()), ((2, 3),))
    yield Op("diagonal", lambda xp, x: xp.diagonal(x), one)
    yield Op("diagonal 1", lambda xp, x: xp.diagonal(x, 1, -1, 1), one)
    yield Op("diagonal far", lambda xp, x: xp.diagonal(x, -9), one)


def _pads() -> Iterator[Op]:
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        for shape in ((1,), (2,), (5,), (3, 4)):
            for width in (0, 1, 3, (2, 11), (13, 0)):
                yield Op(
                    f"pad {mode} {width}",
                    lambda xp, x, mode=mode, width=width: xp.pad(x, width, mode=mode),
                    (shape,),
                )
        yield Op(
            f"pad {mode} by axis",
            lambda xp, x, mode=mode: xp.pad(x, ((1, 2), (0, 0), (4, 3)), mode=mode),
            ((2, 3, 4),),
        )
    values = {"mode": "constant", "constant_values": ((1, 0), (0, 1))}
    yield Op("pad values", lambda xp, x: xp.pad(x, 2, **values), ((2, 3),))
    yield Op("pad empty", lambda xp, x: xp.pad(x, ((1, 1), (0, 0))), ((0, 3),))
    yield Op("pad 0-d", lambda xp, x: xp.pad(x, 3), ((),))


def _matrices() -> Iterator[Op]:
    for shape in ((5, 5), (4, 7), (33, 16), (2, 3, 40, 8), (1, 1), (3, 0), (0, 3), (2, 0, 3, 3)):
        for k in (0, 1, -2, 100, -(2**62), 2**62):
            yield Op(f"tril {k}", lambda xp, x, k=k: xp.tril(x, k=k), (shape,))
            yield Op(f"triu {k}", lambda xp, x, k=k: xp.triu(x, k=k), (shape,))
    yield Op("diag", lambda xp, x: xp.diag(x, 1), ((4, 5),))
    yield Op("diag vector", lambda xp, x: xp.diag(x, -2), ((4,),))


OPS = list(_ops())
# Rearranging does not depend on the dtype but for its width; tril and triu have kernels of it.
FEW = ("bool", "bfloat16", "float32", "complex128")


@dataclass(frozen=True)
class Case:
    op: Op
    dtype: str
    layout: str

    def __str__(self) -> str:
        return f"{self.op}-{self.dtype}-{self.layout}"


def cases() -> Iterator[Case]:
    for op in OPS:
        wide = op.name in ("concat 1", "stack", "tril 1", "triu 1", "roll all", "pad wrap 3")
        for dtype in DTYPES if wide else FEW[zlib.crc32(str(op).encode()) % 4 :][:1]:
            yield Case(op, dtype, "contiguous")
        for layout in LAYOUTS[1:] if not op.name.startswith("pad") else LAYOUTS[2:3]:
            yield Case(op, "int32", layout)


CASES = list(cases())


def run_case(case: Case, device: str | None = None) -> None:
    seed = zlib.crc32(str(case).encode())
    hosts = [host_array(shape, case.dtype, seed + n) for n, shape in enumerate(case.op.shapes)]
    arrays = [on_device(host, case.layout, device) for host in hosts]
    want = case.op.call(np, *hosts)
    got = case.op.call(gp, *arrays)
    assert isinstance(got, (list, tuple)) == isinstance(want, (list, tuple))
    if not isinstance(want, (list, tuple)):
        want, got = [want], [got]
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        assert isinstance(ours, gp.GPUArray)
        assert ours.device == arrays[0].device
        if case.op.view and ours.size:
            assert any(gp.may_share_memory(ours, x) for x in arrays)
        assert_close(to_host(ours), np.asarray(theirs), exact=True)
    for host, array in zip(hosts, arrays, strict=True):
        assert_close(to_host(array), host, exact=True)


@dataclass(frozen=True)
class MustRaise:
    """A call that NumPy refuses as well, with the same class where `same`."""

    name: str
    call: Callable[[Any, Callable[..., Any]], object]
    error: type[Exception]
    words: tuple[str, ...]
    same: bool = True


MUST_RAISE = [
    MustRaise("concat nothing", lambda xp, ones: xp.concat([]), ValueError, ("concat:",)),
    MustRaise(
        "concat shapes",
        lambda xp, ones: xp.concat([ones((2, 3)), ones((2, 4))]),
        ValueError,
        ("concat:", "(2, 3)", "(2, 4)"),
    ),
    MustRaise(
        "concat ranks",
        lambda xp, ones: xp.concat([ones((2, 3)), ones((2,))]),
        ValueError,
        ("concat:", "(2, 3)", "(2,)"),
    ),
    MustRaise(
        "concat 0-d", lambda xp, ones: xp.concat([ones(()), ones(())]), ValueError, ("concat:",)
    ),
    MustRaise(
        "concat axis",
        lambda xp, ones: xp.concat([ones((2, 3))], axis=2),
        IndexError,
        ("concat: axis 2 is out of bounds for array of dimension 2",),
    ),
    MustRaise(
        "concat out",
        lambda xp, ones: xp.concat([ones((2,))], out=ones((3,))),
        ValueError,
        ("out has shape (3,)",),
    ),
    MustRaise(
        "stack shapes",
        lambda xp, ones: xp.stack([ones((2, 3)), ones((3, 2))]),
        ValueError,
        ("stack:", "(2, 3)", "(3, 2)"),
    ),
    MustRaise(
        "stack axis",
        lambda xp, ones: xp.stack([ones((2,))], axis=3),
        IndexError,
        ("stack: axis 3",),
    ),
    MustRaise(
        "flip axis", lambda xp, ones: xp.flip(ones((2,)), axis=1), IndexError, ("flip: axis",)
    ),
    MustRaise(
        "permute count", lambda xp, ones: xp.permute_dims(ones((2, 3)), (0,)), ValueError, ("axes",)
    ),
    MustRaise(
        "permute twice",
        lambda xp, ones: xp.permute_dims(ones((2, 3)), (0, 0)),
        ValueError,
        ("twice",),
    ),
    MustRaise(
        "permute axis",
        lambda xp, ones: xp.permute_dims(ones((2, 3)), (0, 2)),
        IndexError,
        ("axis 2",),
    ),
    MustRaise(
        "moveaxis count",
        lambda xp, ones: xp.moveaxis(ones((2, 3)), (0, 1), 0),
        ValueError,
        ("moveaxis",),
    ),
    MustRaise(
        "expand_dims axis", lambda xp, ones: xp.expand_dims(ones((2,)), axis=3), IndexError, ("3",)
    ),
    MustRaise(
        "squeeze size",
        lambda xp, ones: xp.squeeze(ones((2, 3)), axis=1),
        ValueError,
        ("squeeze:", "(2, 3)"),
    ),
    MustRaise("squeeze axis", lambda xp, ones: xp.squeeze(ones((1,)), axis=1), IndexError, ("1",)),
    MustRaise(
        "reshape size",
        lambda xp, ones: xp.reshape(ones((2, 3)), (4, 2)),
        ValueError,
        ("cannot reshape array of size 6 into shape (4, 2)",),
    ),
    MustRaise(
        "reshape -1 -1", lambda xp, ones: xp.reshape(ones((6,)), (-1, -1)), ValueError, ("-1",)
    ),
    MustRaise(
        "reshape no view",
        lambda xp, ones: xp.reshape(xp.transpose(ones((2, 3))), (6,), copy=False),
        ValueError,
        ("copy",),
    ),
    MustRaise(
        "broadcast_to",
        lambda xp, ones: xp.broadcast_to(ones((3,)), (4,)),
        ValueError,
        ("(3,)", "(4,)"),
    ),
    MustRaise(
        "broadcast_arrays",
        lambda xp, ones: xp.broadcast_arrays(ones((3,)), ones((4,))),
        ValueError,
        ("(3,)", "(4,)"),
    ),
    MustRaise(
        "roll lengths",
        lambda xp, ones: xp.roll(ones((3, 3)), (1, 2, 3), axis=(0, 1)),
        ValueError,
        ("roll:",),
    ),
    MustRaise(
        "roll axis", lambda xp, ones: xp.roll(ones((3,)), 1, axis=1), IndexError, ("axis 1",)
    ),
    MustRaise("repeat negative", lambda xp, ones: xp.repeat(ones((3,)), -1), ValueError, ("-1",)),
    MustRaise(
        "repeat axis", lambda xp, ones: xp.repeat(ones((3,)), 2, axis=1), IndexError, ("axis 1",)
    ),
    MustRaise("tile negative", lambda xp, ones: xp.tile(ones((3,)), (-1,)), ValueError, ("tile",)),
    MustRaise(
        "split uneven", lambda xp, ones: xp.split(ones((5,)), 2), ValueError, ("split", "(5,)")
    ),
    MustRaise("split axis", lambda xp, ones: xp.split(ones((4,)), 2, axis=1), IndexError, ()),
    MustRaise("split 0", lambda xp, ones: xp.array_split(ones((4,)), 0), ValueError, ("0",)),
    MustRaise("pad mode", lambda xp, ones: xp.pad(ones((3,)), 1, mode="no"), ValueError, ("no",)),
    MustRaise("pad negative", lambda xp, ones: xp.pad(ones((3,)), -1), ValueError, ("-1",)),
    MustRaise(
        "pad empty", lambda xp, ones: xp.pad(ones((0,)), 1, mode="wrap"), ValueError, ("(0,)",)
    ),
    MustRaise(
        "pad axes", lambda xp, ones: xp.pad(ones((3,)), ((1, 1), (1, 1))), ValueError, ("2", "1")
    ),
    MustRaise("rot90 axes", lambda xp, ones: xp.rot90(ones((3,))), ValueError, ("rot90",)),
    MustRaise(
        "diagonal", lambda xp, ones: xp.diagonal(ones((3,))), ValueError, ("diagonal", "(3,)")
    ),
    MustRaise(
        "diagonal axes", lambda xp, ones: xp.diagonal(ones((3, 3)), 0, 1, 1), ValueError, ("1",)
    ),
    MustRaise("diag", lambda xp, ones: xp.diag(ones((3, 3, 3))), ValueError, ("(3, 3, 3)",)),
    MustRaise("vsplit", lambda xp, ones: xp.vsplit(ones((3,)), 1), ValueError, ("vsplit",)),
    MustRaise(
        "meshgrid", lambda xp, ones: xp.meshgrid(ones((3,)), indexing="x"), ValueError, ("'x'",)
    ),
    MustRaise("tril", lambda xp, ones: xp.tril(ones((3,))), ValueError, ("(3,)",), same=False),
    MustRaise("float shape", lambda xp, ones: xp.reshape(ones((6,)), 2.5), TypeError, ("2.5",)),
    MustRaise("float axis", lambda xp, ones: xp.flip(ones((6,)), axis=0.5), TypeError, ("0.5",)),
    MustRaise("arange step", lambda xp, ones: xp.arange(0, 3, 0), ZeroDivisionError, ("step",)),
    MustRaise("arange inf", lambda xp, ones: xp.arange(0, float("inf")), ValueError, ("inf",)),
    MustRaise(
        "arange fit", lambda xp, ones: xp.arange(300, 305, dtype="uint8"), OverflowError, ("300",)
    ),
    MustRaise("linspace num", lambda xp, ones: xp.linspace(0, 1, -1), ValueError, ("-1",)),
    MustRaise("linspace float", lambda xp, ones: xp.linspace(0, 1, 2.5), TypeError, ("2.5",)),
    MustRaise("eye negative", lambda xp, ones: xp.eye(-1), ValueError, ("-1",)),
]


def run_must_raise(case: MustRaise, device: str | None = None) -> None:
    if case.same:
        with pytest.raises(case.error):
            case.call(np, lambda shape: np.ones(shape, np.float32))
    with pytest.raises(case.error) as caught:
        case.call(gp, lambda shape: gp.ones(shape, device=device))
    for word in case.words:
        assert word in str(caught.value)
