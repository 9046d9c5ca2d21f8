"""where= and dtype= of elementwise functions, against NumPy's."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import pygpukit as gp

RNG = np.random.default_rng(17)
X = (RNG.standard_normal((33, 31)) * 4).astype(np.float32)
Y = np.round(RNG.standard_normal((33, 31))).astype(np.float32)
I, J = RNG.integers(-9, 9, (2, 33, 31), dtype=np.int32)  # noqa: E741
Z = (X[:5] + 1j * Y[:5]).astype(np.complex64)
ROW, COLUMN = Y[0] > 0, Y[:, :1] != 0


class Call(NamedTuple):
    name: str
    args: tuple[Any, ...]
    where: Any = True
    out: Any = None
    dtype: str | None = None


CALLS = [
    Call("divide", (X, Y), Y != 0, X),
    Call("divide", (X, Y), Y != 0, np.full(X.shape, -1.0)),  # a wider out
    Call("divide", (X, 2.0), ROW, np.zeros((3, *X.shape), np.float32)),  # a larger out
    Call("add", (X, Y), COLUMN, X),
    Call("add", (X[:1], 1), COLUMN, X),  # where is larger than the operand
    Call("multiply", (X[::2, ::-1], Y[::2]), (X > 0)[::2], Y[::2]),
    Call("floor_divide", (I, J), J != 0, I),
    Call("sqrt", (X,), X > 0, X),
    Call("log", (X,), ROW, X),
    Call("less", (X, Y), ROW, X > 1),
    Call("logical_not", (X > 0,), X > 0, X > 0),
    Call("add", (X, 1), False, X),
    Call("add", (X[0], [1.0] * 31), [True, False] * 15 + [True], X[0].astype(np.float64)),
    Call("add", (X, Y), dtype="float64"),
    Call("add", (I, J), dtype="float32"),
    Call("multiply", (I, 3), dtype="int64"),
    Call("sqrt", (np.abs(I),), dtype="float32"),
    Call("divide", (I, 7), dtype="float32"),
    Call("exp", (X,), dtype="float64"),
    Call("less", (X, Y), dtype="bool"),
    Call("abs", (Z,), dtype="float32"),
    Call("add", (X, Y), Y > 0, np.zeros(X.shape), "float64"),
    Call("subtract", (X[:0], Y[:0]), Y[:0] > 0, X[:0]),
]


def run(call: Call, device: str | None = None) -> None:
    def on(value: Any) -> Any:
        return gp.from_numpy(value, device=device) if isinstance(value, np.ndarray) else value

    options: dict[str, Any] = {} if call.dtype is None else {"dtype": call.dtype}
    want_out = None if call.out is None else call.out.copy()
    with np.errstate(all="ignore"):
        want = getattr(np, call.name)(*call.args, out=want_out, where=call.where, **options)
    out = on(call.out)
    function = getattr(gp, call.name)
    got = function(*map(on, call.args), out=out, where=on(call.where), **options)
    assert out is None or got is out
    host = got.to_numpy()
    assert host.dtype == want.dtype
    assert host.shape == want.shape
    rtol = 1e-14 if host.dtype == np.float64 else 2e-6
    np.testing.assert_allclose(host, want, rtol=rtol)


def run_special(device: str | None = None) -> None:
    """Without out, operands that are the output, and a mask that is."""
    x, y = gp.from_numpy(X, device=device), gp.from_numpy(Y, device=device)
    alone = gp.divide(x, y, where=y != 0).to_numpy()
    np.testing.assert_array_equal(alone[Y != 0], (X[Y != 0] / Y[Y != 0]))
    wide = gp.add(x[:1], 1, where=y > 0)
    assert wide.shape == X.shape
    gp.add(x, x, out=x, where=y > 0)
    np.testing.assert_array_equal(x.to_numpy(), np.where(Y > 0, X + X, X))
    moved = gp.from_numpy(X, device=device)
    gp.negative(moved[1:], out=moved[:-1], where=y[1:] > 0)
    want = np.where(Y[1:] > 0, -X[1:], X[:-1])
    np.testing.assert_array_equal(moved.to_numpy()[:-1], want)
    mask = y > 0
    gp.logical_not(mask, out=mask, where=mask)
    assert not mask.to_numpy().any()
