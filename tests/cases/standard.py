"""The functions of the array API standard 2024.12: their signatures, and a call of each that NumPy,
which follows the standard too, answers with the same values and dtypes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import pygpukit as gp

SIGNATURES = """
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing='xy')
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
concat(arrays, /, *, axis=0)
expand_dims(x, /, *, axis=0)
flip(x, /, *, axis=None)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
tile(x, repetitions, /)
unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False)
nonzero(x, /)
searchsorted(x1, x2, /, *, side='left', sorter=None)
where(condition, x1, x2, /)
take(x, indices, /, *, axis)
take_along_axis(x, indices, /, *, axis=-1)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
clip(x, /, min=None, max=None)
matmul(x1, x2, /)
matrix_transpose(x, /)
tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
linalg.cholesky(x, /, *, upper=False)
linalg.cross(x1, x2, /, *, axis=-1)
linalg.det(x, /)
linalg.diagonal(x, /, *, offset=0)
linalg.eigh(x, /)
linalg.eigvalsh(x, /)
linalg.inv(x, /)
linalg.matmul(x1, x2, /)
linalg.matrix_norm(x, /, *, keepdims=False, ord='fro')
linalg.matrix_power(x, n, /)
linalg.matrix_rank(x, /, *, rtol=None)
linalg.matrix_transpose(x, /)
linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol=None)
linalg.qr(x, /, *, mode='reduced')
linalg.slogdet(x, /)
linalg.solve(x1, x2, /)
linalg.svd(x, /, *, full_matrices=True)
linalg.svdvals(x, /)
linalg.tensordot(x1, x2, /, *, axes=2)
linalg.trace(x, /, *, offset=0, dtype=None)
linalg.vecdot(x1, x2, /, *, axis=-1)
linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
fft.fft(x, /, *, n=None, axis=-1, norm='backward')
fft.ifft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftn(x, /, *, s=None, axes=None, norm='backward')
fft.ifftn(x, /, *, s=None, axes=None, norm='backward')
fft.rfft(x, /, *, n=None, axis=-1, norm='backward')
fft.irfft(x, /, *, n=None, axis=-1, norm='backward')
fft.rfftn(x, /, *, s=None, axes=None, norm='backward')
fft.irfftn(x, /, *, s=None, axes=None, norm='backward')
fft.hfft(x, /, *, n=None, axis=-1, norm='backward')
fft.ihfft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.fftshift(x, /, *, axes=None)
fft.ifftshift(x, /, *, axes=None)
"""
UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag "
    "isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round "
    "sign signbit sin sinh square sqrt tan tanh trunc"
)
BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign "
    "divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and "
    "logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract"
)
TABLE = [
    *SIGNATURES.strip().split("\n"),
    *(f"{name}(x, /)" for name in UNARY.split()),
    *(f"{name}(x1, x2, /)" for name in BINARY.split()),
]
ATTRIBUTES = "T device dtype mT ndim shape size"
METHODS = (
    "abs add and array_namespace bool complex dlpack dlpack_device eq float floordiv ge getitem gt "
    "index int invert le lshift lt matmul mod mul ne neg or pos pow radd rand rfloordiv rlshift "
    "rmatmul rmod rmul ror rpow rrshift rshift rsub rtruediv rxor setitem sub truediv xor iadd "
    "iand ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor"
)


def find(name: str) -> Any:
    """A function of ours by its name in the standard."""
    home, _, last = name.rpartition(".")
    return getattr(getattr(gp, home) if home else gp, last)


def check_signature(text: str) -> None:
    """Every way to call that the standard has; keywords may be positional, as in NumPy."""
    name = text.partition("(")[0]
    scope: dict[str, Any] = {}
    exec(f"def f{text[len(name) :]}: ...", scope)
    ours = list(inspect.signature(find(name)).parameters.values())
    named = {p.name: p for p in ours}
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    wanted = set()
    for place, want in enumerate(inspect.signature(scope["f"]).parameters.values()):
        mine = named[want.name] if want.kind is want.KEYWORD_ONLY else ours[place]
        if want.kind is want.KEYWORD_ONLY:
            assert mine.kind in (want.KEYWORD_ONLY, either), mine
        else:
            allowed = {want.kind, either} if want.kind is want.POSITIONAL_ONLY else {want.kind}
            assert mine.kind in allowed, mine
        if want.kind in (want.KEYWORD_ONLY, either):
            assert mine.name == want.name
        if want.default is not want.empty:  # None stands for the default, as in NumPy
            assert mine.default in (want.default, None), mine
        wanted.add(mine.name)
    for mine in ours:  # what we have in addition
        optional = mine.default is not mine.empty or mine.kind is mine.VAR_KEYWORD
        assert optional or mine.name in wanted, mine


# --- calls ----------------------------------------------------------------------------------------

RNG = np.random.default_rng(41)
X = RNG.normal(size=(4, 5))
P = RNG.uniform(0.1, 0.9, (4, 5))
Q = RNG.uniform(1.1, 3.0, (4, 5))
I = RNG.integers(0, 9, (4, 5))  # noqa: E741
Z = X + 1j * P
S = X @ X.T + np.eye(4)
B = X > 0
Call = Callable[[Any, Callable[[Any], Any]], Any]

# Operands other than P of elementwise functions.
OPERANDS = {"acosh": Q, "bitwise_invert": I, "conj": Z, "imag": Z, "real": Z, "logical_not": B}
PAIRS = {
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), (I, I[::-1])),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), (I, I[::-1])),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), (B, B[::-1])),
}

CALLS: dict[str, Call] = {
    "arange": lambda xp, a: xp.arange(1, 9, 2, dtype=xp.int32),
    "asarray": lambda xp, a: xp.asarray([1, 2], dtype=xp.float64, copy=True),
    "empty": lambda xp, a: xp.empty((2, 3), dtype=xp.int8) * 0,
    "empty_like": lambda xp, a: xp.empty_like(a(I)) * 0,
    "eye": lambda xp, a: xp.eye(3, 4, k=1, dtype=xp.float64),
    "from_dlpack": lambda xp, a: xp.from_dlpack(a(X)),
    "full": lambda xp, a: xp.full((2, 2), 3, dtype=xp.uint8),
    "full_like": lambda xp, a: xp.full_like(a(X), 2.0, dtype=xp.float32),
    "linspace": lambda xp, a: xp.linspace(0, 1, 5, dtype=xp.float64, endpoint=False),
    "meshgrid": lambda xp, a: xp.meshgrid(a(X[0]), a(P[:, 0]), indexing="ij"),
    "ones": lambda xp, a: xp.ones((2,), dtype=xp.complex128),
    "ones_like": lambda xp, a: xp.ones_like(a(I)),
    "tril": lambda xp, a: xp.tril(a(X), k=-1),
    "triu": lambda xp, a: xp.triu(a(X), k=1),
    "zeros": lambda xp, a: xp.zeros((3, 0), dtype=xp.bool),
    "zeros_like": lambda xp, a: xp.zeros_like(a(X)),
    "astype": lambda xp, a: xp.astype(a(X), xp.float32, copy=False),
    "broadcast_arrays": lambda xp, a: xp.broadcast_arrays(a(X), a(P[0])),
    "broadcast_to": lambda xp, a: xp.broadcast_to(a(X), (2, 4, 5)),
    "concat": lambda xp, a: xp.concat([a(X), a(P)], axis=1),
    "expand_dims": lambda xp, a: xp.expand_dims(a(X), axis=1),
    "flip": lambda xp, a: xp.flip(a(X), axis=(0, 1)),
    "moveaxis": lambda xp, a: xp.moveaxis(a(X), 0, -1),
    "permute_dims": lambda xp, a: xp.permute_dims(a(X), (1, 0)),
    "repeat": lambda xp, a: (xp.repeat(a(X), 2, axis=0), xp.repeat(a(X[0]), a(I[0]))),
    "reshape": lambda xp, a: xp.reshape(a(X), (2, -1), copy=True),
    "roll": lambda xp, a: xp.roll(a(X), (1, -2), axis=(0, 1)),
    "squeeze": lambda xp, a: xp.squeeze(a(X[:1]), axis=0),
    "stack": lambda xp, a: xp.stack([a(X), a(P)], axis=-1),
    "tile": lambda xp, a: xp.tile(a(X), (2, 1, 2)),
    "unstack": lambda xp, a: xp.unstack(a(X), axis=1),
    "argmax": lambda xp, a: xp.argmax(a(X), axis=1, keepdims=True),
    "argmin": lambda xp, a: xp.argmin(a(X)),
    "count_nonzero": lambda xp, a: xp.count_nonzero(a(I), axis=0, keepdims=True),
    "nonzero": lambda xp, a: xp.nonzero(a(I)),
    "searchsorted": lambda xp, a: xp.searchsorted(a(np.sort(X[0])), a(P[0]), side="right"),
    "where": lambda xp, a: (xp.where(a(B), a(X), a(P)), xp.where(a(B), a(X), 1.0)),
    "take": lambda xp, a: xp.take(a(X), a([2, 0]), axis=0),
    "take_along_axis": lambda xp, a: xp.take_along_axis(a(X), a(np.argsort(X, 1)), axis=1),
    "unique_all": lambda xp, a: tuple(xp.unique_all(a(I))),
    "unique_counts": lambda xp, a: tuple(xp.unique_counts(a(I))),
    "unique_inverse": lambda xp, a: tuple(xp.unique_inverse(a(I))),
    "unique_values": lambda xp, a: xp.sort(xp.unique_values(a(I))),
    "argsort": lambda xp, a: xp.argsort(a(X), axis=0, stable=True),
    "sort": lambda xp, a: xp.sort(a(X), axis=0, stable=True),
    "cumulative_prod": lambda xp, a: xp.cumulative_prod(a(X), axis=0, include_initial=True),
    "cumulative_sum": lambda xp, a: xp.cumulative_sum(a(I), axis=1, dtype=xp.float64),
    "max": lambda xp, a: xp.max(a(X), axis=(0, 1), keepdims=True),
    "mean": lambda xp, a: (xp.mean(a(X), axis=0), xp.mean(a(Z))),
    "min": lambda xp, a: xp.min(a(X), axis=1),
    "prod": lambda xp, a: xp.prod(a(X), axis=0, dtype=xp.float64),
    "std": lambda xp, a: xp.std(a(X), axis=1, correction=1.0),
    "sum": lambda xp, a: (xp.sum(a(I), axis=1), xp.sum(a(X.astype(np.float32)))),
    "var": lambda xp, a: xp.var(a(X), correction=0.5, keepdims=True),
    "all": lambda xp, a: xp.all(a(B), axis=0),
    "any": lambda xp, a: xp.any(a(B), axis=1, keepdims=True),
    "diff": lambda xp, a: xp.diff(a(X), axis=0, n=2, prepend=a(P[:1])),
    "clip": lambda xp, a: (xp.clip(a(X), -0.5, 0.5), xp.clip(a(X), min=a(P))),
    "matmul": lambda xp, a: xp.matmul(a(X), a(P.T)),
    "matrix_transpose": lambda xp, a: xp.matrix_transpose(a(X)),
    "tensordot": lambda xp, a: xp.tensordot(a(X), a(P), axes=((0,), (0,))),
    "vecdot": lambda xp, a: xp.vecdot(a(Z), a(Z), axis=0),
    "linalg.cholesky": lambda xp, a: xp.linalg.cholesky(a(S), upper=True),
    "linalg.cross": lambda xp, a: xp.linalg.cross(a(X[:3]), a(P[:3]), axis=0),
    "linalg.det": lambda xp, a: xp.linalg.det(a(S)),
    "linalg.diagonal": lambda xp, a: xp.linalg.diagonal(a(X), offset=1),
    "linalg.eigh": lambda xp, a: xp.linalg.eigh(a(S)).eigenvalues,
    "linalg.eigvalsh": lambda xp, a: xp.linalg.eigvalsh(a(S)),
    "linalg.inv": lambda xp, a: xp.linalg.inv(a(S)),
    "linalg.matmul": lambda xp, a: xp.linalg.matmul(a(X), a(P.T)),
    "linalg.matrix_norm": lambda xp, a: xp.linalg.matrix_norm(a(X), keepdims=True, ord="nuc"),
    "linalg.matrix_power": lambda xp, a: xp.linalg.matrix_power(a(S), -2),
    "linalg.matrix_rank": lambda xp, a: xp.linalg.matrix_rank(a(X), rtol=1e-5),
    "linalg.matrix_transpose": lambda xp, a: xp.linalg.matrix_transpose(a(X)),
    "linalg.outer": lambda xp, a: xp.linalg.outer(a(X[0]), a(P[0])),
    "linalg.pinv": lambda xp, a: xp.linalg.pinv(a(X), rtol=1e-9),
    "linalg.qr": lambda xp, a: xp.abs(xp.linalg.qr(a(X), mode="complete").R),
    "linalg.slogdet": lambda xp, a: tuple(xp.linalg.slogdet(a(S))),
    "linalg.solve": lambda xp, a: xp.linalg.solve(a(S), a(X)),
    "linalg.svd": lambda xp, a: xp.linalg.svd(a(X), full_matrices=False).S,
    "linalg.svdvals": lambda xp, a: xp.linalg.svdvals(a(X)),
    "linalg.tensordot": lambda xp, a: xp.linalg.tensordot(a(X), a(P), axes=2),
    "linalg.trace": lambda xp, a: xp.linalg.trace(a(X), offset=1),
    "linalg.vecdot": lambda xp, a: xp.linalg.vecdot(a(X), a(P)),
    "linalg.vector_norm": lambda xp, a: xp.linalg.vector_norm(a(X), axis=1, ord=3),
    "fft.fft": lambda xp, a: xp.fft.fft(a(Z), n=7, norm="ortho"),
    "fft.ifft": lambda xp, a: xp.fft.ifft(a(Z), axis=0),
    "fft.fftn": lambda xp, a: xp.fft.fftn(a(Z), s=(4, 3), axes=(0, 1)),
    "fft.ifftn": lambda xp, a: xp.fft.ifftn(a(Z), norm="forward"),
    "fft.rfft": lambda xp, a: xp.fft.rfft(a(X)),
    "fft.irfft": lambda xp, a: xp.fft.irfft(a(Z), n=9),
    "fft.rfftn": lambda xp, a: xp.fft.rfftn(a(X)),
    "fft.irfftn": lambda xp, a: xp.fft.irfftn(a(Z), s=(4, 6), axes=(0, 1)),
    "fft.hfft": lambda xp, a: xp.fft.hfft(a(Z)),
    "fft.ihfft": lambda xp, a: xp.fft.ihfft(a(X)),
    "fft.fftfreq": lambda xp, a: xp.astype(xp.fft.fftfreq(7, d=0.5), xp.float64),
    "fft.rfftfreq": lambda xp, a: xp.astype(xp.fft.rfftfreq(8), xp.float64),
    "fft.fftshift": lambda xp, a: xp.fft.fftshift(a(X), axes=1),
    "fft.ifftshift": lambda xp, a: xp.fft.ifftshift(a(X)),
    **{
        name: lambda xp, a, name=name: getattr(xp, name)(a(OPERANDS.get(name, P)))
        for name in UNARY.split()
    },
    **{
        name: lambda xp, a, name=name: getattr(xp, name)(*map(a, PAIRS.get(name, (P, Q))))
        for name in BINARY.split()
    },
}


def check_call(name: str, make: Callable[[Any], Any]) -> None:
    want = CALLS[name](np, np.asarray)
    got = CALLS[name](gp, make)
    pairs = zip(got, want, strict=True) if isinstance(want, (tuple, list)) else [(got, want)]
    for ours, theirs in pairs:
        host = ours.to_numpy()
        assert (host.shape, host.dtype) == (np.shape(theirs), np.asarray(theirs).dtype)
        np.testing.assert_allclose(host, theirs, rtol=1e-6, atol=1e-7)
