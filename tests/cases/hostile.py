"""Values that no caller should pass, and objects that raise, lie or change while they are read."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pygpukit._names import OPS

# Functions that never walk over the elements of an array one by one without memory for the result:
# they either make a view or refuse.
TAKES_HUGE = {
    *(name for home in ("manipulation", "elementwise") for name in OPS[f"pygpukit.ops.{home}"]),
    *("T", "mT", "nbytes", "size", "shape", "strides", "to_numpy", "tolist", "copy", "clone"),
    *(
        f"__{name}__"
        for name in ("add", "mul", "eq", "neg", "abs", "pow", "iadd", "getitem", "copy")
    ),
    *("__len__", "__repr__", "__str__", "__bool__", "__int__", "__float__", "__sizeof__", "item"),
} - {"shares_memory"}


class Evil(Exception):
    """Raised by hostile objects; passing it on is right."""


def raises(*args: object, **kwargs: object) -> Any:
    raise Evil


def hostile(**methods: Any) -> Any:
    """An object with these special methods."""
    return type("Hostile", (), methods)()


class Mutating(list[Any]):
    """A list whose elements empty it when their value is read."""

    def __init__(self) -> None:
        super().__init__()
        clear = self.clear

        def index(_: object) -> int:
            clear()
            return 1

        self.extend(hostile(__index__=index, __float__=index) for _ in range(4))


class Shorter:
    """A sequence that ends before its length says."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> int:
        if index > 2:
            raise IndexError
        return 1


def objects() -> list[Callable[[], Any]]:
    lying_shape = {"shape": (1 << 40,), "typestr": "<f4", "data": (8, False), "version": 3}
    return [
        object,
        lambda: hostile(__index__=raises, __int__=raises),
        lambda: hostile(__index__=lambda _: "1"),
        lambda: hostile(__index__=lambda _: 1 << 70),
        lambda: hostile(__len__=raises, __getitem__=raises),
        lambda: hostile(__len__=lambda _: -1, __getitem__=lambda _, i: i),
        lambda: hostile(__len__=lambda _: 3, __getitem__=raises),
        lambda: hostile(__float__=raises, __complex__=raises),
        lambda: hostile(__float__=lambda _: "nan"),
        lambda: hostile(__repr__=raises),
        lambda: hostile(__repr__=lambda _: "x" * 100_000),
        lambda: hostile(__repr__=lambda _: 5, __str__=lambda _: 5),
        lambda: hostile(__eq__=raises, __hash__=raises),
        lambda: hostile(__eq__=lambda *_: True, __hash__=lambda _: 1),
        lambda: hostile(__bool__=raises),
        lambda: hostile(__iter__=raises),
        lambda: hostile(__getattr__=raises),
        lambda: hostile(__array__=raises),
        lambda: hostile(__array__=lambda *_, **__: "no array"),
        lambda: hostile(__array_interface__=lying_shape),
        lambda: hostile(__cuda_array_interface__={"shape": None}),
        lambda: hostile(__dlpack__=raises, __dlpack_device__=lambda _: (1, 0)),
        lambda: hostile(__dlpack__=lambda *_, **__: 5, __dlpack_device__=lambda _: (1, 0)),
        lambda: hostile(__dlpack__=raises, __dlpack_device__=lambda _: "cpu"),
        lambda: hostile(__cuda_stream__=lambda _: (0, -1)),
        lambda: hostile(dtype="float32", shape=(), item=lambda *_: 1),
        lambda: hostile(__call__=raises),
        Mutating,
        Shorter,
    ]


def plain_values() -> list[Any]:
    import numpy as np

    endless: list[Any] = [1]
    endless.append(endless)
    deep: Any = 1.0
    for _ in range(100):
        deep = [deep]
    numbers = [0, 1, -1, 2, 3, 7, 1.5, -0.0, 1e308, 1j, True, False]
    large = [1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, 1 << 63, 1 << 64, 10**30]
    texts = ["", "x", "a\0b", "\udcff", "float32", "cpu", "cuda:0", "cuda:99999999999", "%s%n", "C"]
    sequences: list[Any] = [
        [], (), [1, 2, 3], (2, 3), [[1.0, 2.0], [3.0]], ["a"], [None], endless, deep,
        [1 << 62, 1 << 62], (-1,), (0,), (1,) * 70, [0] * 10_000, {}, {"a": 1}, {1, 2}, range(3),
    ]  # fmt: skip
    others = [
        None, ..., NotImplemented, slice(None), slice(2**70, -(2**70), 0), b"", b"bytes",
        bytearray(3), memoryview(b"abc"), int, object, float("nan"), float("inf"), "x" * 100_000,
        len, Evil(), np.float32(1.5), np.int64(-1), np.array(2), np.arange(3), np.array(["a"]),
        np.dtype("O"), np.zeros((2, 0)), np.zeros(3, "M8[s]"),
    ]  # fmt: skip
    return [*numbers, *large, *(-n for n in large), *texts, *sequences, *others]


def arrays() -> list[Any]:
    import pygpukit as gp

    found: list[Any] = []
    for dtype in gp.__array_namespace_info__().dtypes().values():
        found += [gp.ones((2, 3), dtype), gp.ones((), dtype), gp.zeros((0, 3), dtype)]
    for dtype in ("float16", "bfloat16"):
        found.append(gp.ones(4, dtype))
    for dtype in ("float8_e4m3fn", "int4", "float4_e2m1fn"):
        found.append(gp.zeros((2, 4), dtype))
    found += [gp.arange(24).reshape((2, 3, 4)), gp.arange(5)[::-2], gp.full(3, float("nan"))]
    return found


def huge_arrays() -> list[Any]:
    """Views of one element: more bytes than there are, and more than 64 bits can count."""
    import pygpukit as gp

    shapes = ((2**40,), (2**31, 2**31), (2**62, 1))
    return [gp.broadcast_to(gp.ones(1, "float64"), shape) for shape in shapes]


class Corpus:
    """What arguments are drawn from, and the objects that calls have returned."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.plain = plain_values()
        self.objects = objects()
        self.arrays = arrays()
        self.huge = huge_arrays()
        self.results: dict[type, list[Any]] = {}

    def value(self, name: str = "") -> Any:
        """An argument of the function of that name."""
        kind = self.rng.random()
        if kind < 0.45:
            return self.rng.choice(self.plain)
        if kind < 0.70:
            return self.rng.choice(self.arrays)
        if kind < 0.75:
            return self.rng.choice(self.huge if name in TAKES_HUGE else self.arrays)
        if kind < 0.9 or not self.results:
            return self.rng.choice(self.objects)()
        return self.rng.choice(self.results[self.rng.choice(list(self.results))])

    def harmless(self) -> Any:
        """An array or a small number."""
        return self.rng.choice(self.arrays if self.rng.random() < 0.7 else (0, 1, 2, -1, 0.5, True))

    def keep(self, result: object) -> None:
        """A few instances of each class of the package, so that their methods can be called."""
        import pygpukit as gp

        if not type(result).__module__.startswith("pygpukit") or isinstance(result, gp.GPUArray):
            return
        kept = self.results.setdefault(type(result), [])
        if len(kept) < 3:
            kept.append(result)
        elif self.rng.random() < 0.1:
            kept[self.rng.randrange(3)] = result

    def instance(self, of: type, name: str) -> Any:
        import pygpukit as gp

        if of is gp.GPUArray:
            huge = name in TAKES_HUGE and self.rng.random() < 0.2
            return self.rng.choice(self.huge if huge else self.arrays)
        return self.rng.choice(self.results[of]) if of in self.results else None


def shown(value: object) -> str:
    """repr() without asking a hostile object for anything."""
    if isinstance(value, (int, float, str, bytes, bool, complex)) or value is None:
        return ascii(value)[:60]
    shape = getattr(value, "shape", None) if type(value).__name__ == "GPUArray" else None
    if shape is not None:
        return f"<GPUArray {shape} {value.dtype.name}>"  # type: ignore[attr-defined]
    if type(value).__name__ == "Hostile":
        names = [n for n, member in vars(type(value)).items() if callable(member)]
        return f"<Hostile {' '.join(names)}>"
    return f"<{type(value).__name__}>"
