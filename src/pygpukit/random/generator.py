"""Random numbers: the same for a seed on every device, and in simulation.

>>> rng = gp.random.default_rng(7)
>>> rng.normal(size=(3, 4))

A Generator walks the blocks of a Philox 4x32-10 stream: its key comes from the seed, every
call consumes the blocks it needs. Uniform numbers and integers have the same bits on the GPU and on
the CPU; normal and exponential numbers differ by rounding. Work is enqueued on the current stream.
In a captured graph the position is part of the graph: replays repeat the numbers.
"""

from __future__ import annotations

import threading
from operator import index

from pygpukit import _native
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.random.distributions import Distributions, is_array, placed, result_shape
from pygpukit.random.selection import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Size = int | Sequence[int] | None

_MASK = 2**64 - 1
_POSITIONS = 2**96
_ANY_SIZE = 2**128  # the core knows what fits the dtype
_GOLDEN = 0x9E3779B97F4A7C15


def _mix(x: int) -> int:
    """A 64-bit bijective mixer (SplitMix64's finaliser)."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _absorb(key: int, number: int) -> int:
    return _mix((_mix((key + _GOLDEN) & _MASK) + number) & _MASK)


def _key_from_seed(seed: Any) -> int:
    """Distinct seeds below 2**64 have distinct keys; larger ones and sequences are hashed."""
    try:
        if hasattr(seed, "generate_state"):  # numpy.random.SeedSequence
            seed = seed.generate_state(4)
        numbers = [index(seed)]
    except TypeError:
        try:
            numbers = [index(number) for number in seed]
        except TypeError:
            raise InvalidTypeError(
                f"default_rng: seed is {safe_repr(seed)}, expected None, an int or ints"
            ) from None
    key = 0
    for number in numbers:
        if number < 0:
            raise InvalidValueError(
                f"default_rng: seed is {safe_repr(seed)}, expected non-negative integers"
            )
        key = _absorb(key, number & _MASK)
        while (number := number >> 64) > 0:
            key = _absorb(key, number & _MASK)
    return key


class Generator(Distributions, Selection):
    """A stream of random numbers. Created by default_rng.

    Methods take ``size`` (None: one number, as a 0-d array), floating ones ``dtype`` (float16,
    bfloat16, float32 or float64; default float32), and return arrays on the generator's device.
    They may be called from several threads.
    """

    def __init__(self, key: int, position: int = 0, *, device: Any = None) -> None:
        self._key = key & _MASK
        self._position = position % _POSITIONS
        self._device = device
        self._num_spawned = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Generator(Philox4x32, key=0x{self._key:016x}, position={self._position})"

    @property
    def state(self) -> dict[str, int]:
        """key, position (in blocks of four words) and number of spawned generators."""
        with self._lock:
            return {
                "key": self._key,
                "position": self._position,
                "num_spawned": self._num_spawned,
            }

    @state.setter
    def state(self, value: dict[str, int]) -> None:
        with self._lock:
            self._key = value["key"] & _MASK
            self._position = value["position"] % _POSITIONS
            self._num_spawned = value["num_spawned"]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.state, "device": self._device}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["key"], state["position"], device=state["device"])  # type: ignore[misc]
        self._num_spawned = state["num_spawned"]

    def spawn(self, n_children: int) -> list[Generator]:
        """New generators with keys derived from this one's; each call returns different ones."""
        count = index(n_children)
        if count < 0:
            raise InvalidValueError(f"spawn: n_children is {count}, expected 0 or more")
        with self._lock:
            first = self._num_spawned
            self._num_spawned += count
        base = _absorb(self._key, _MASK)
        return [
            Generator(_absorb(base, number), device=self._device)
            for number in range(first, first + count)
        ]

    def advance(self, blocks: int) -> Generator:
        """Skips (or, if negative, goes back) blocks of four words; returns itself."""
        with self._lock:
            self._position = (self._position + index(blocks)) % _POSITIONS
        return self

    def _draw(
        self,
        op: str,
        function: Callable[..., GPUArray],
        size: Size,
        dtype: Any,
        out: GPUArray | None,
        wide: bool | None,
        *parameters: Any,
    ) -> GPUArray:
        """wide: whether an element takes 64 bits; None: as float64 does."""
        with self._lock:
            low, high = self._position & _MASK, self._position >> 64
            if dtype is None:
                if out is not None:
                    require_arrays(op, out=out)
                dtype = "float32" if out is None else out.dtype
            request = (op, size, dtype, self._device, out, self._key, low, high)
            result = function(request, *parameters)
            if wide is None:
                wide = result.dtype.itemsize == 8
            used = _native.random_blocks(result.size, wide)
            self._position = (self._position + used) % _POSITIONS
        return result

    def _draw_by_rejection(
        self, op: str, function: Callable[..., GPUArray], shape: Any, dtype: Any, *args: Any
    ) -> GPUArray:
        """Each element takes a block of its own."""
        with self._lock:
            low, high = self._position & _MASK, self._position >> 64
            request = (op, shape, dtype, self._device, None, self._key, low, high)
            result = function(request, *args)
            self._position = (self._position + result.size) % _POSITIONS
        return result

    def random(self, size: Size = None, dtype: Any = None, out: GPUArray | None = None) -> GPUArray:
        """Uniform numbers in [0, 1)."""
        return self._uniform("random", 0.0, 1.0, size, dtype, out)

    def uniform(
        self, low: Any = 0.0, high: Any = 1.0, size: Size = None, dtype: Any = "float32"
    ) -> GPUArray:
        """Uniform numbers: low + (high - low) * u with u in [0, 1). Rounding may give high."""
        if is_array(low) or is_array(high):
            low = self._parameter("uniform", "low", low)
            high = self._parameter("uniform", "high", high)
            draw = self.random(result_shape("uniform", size, low, high), dtype)
            width = _native.subtract(high, low)
            return placed(draw, low, width, dtype)
        return self._uniform("uniform", low, high, size, dtype, None)

    def _uniform(
        self, op: str, low: float, high: float, size: Size, dtype: Any, out: GPUArray | None
    ) -> GPUArray:
        function = _native.random_uniform
        return self._draw(op, function, size, dtype, out, None, low, high)

    def normal(
        self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None, dtype: Any = "float32"
    ) -> GPUArray:
        """Normal numbers with mean loc and standard deviation scale."""
        if is_array(loc) or is_array(scale):
            shape, loc, scale = self._located("normal", loc, scale, size)
            return placed(self.standard_normal(shape, dtype), loc, scale, dtype)
        function = _native.random_normal
        return self._draw("normal", function, size, dtype, None, None, loc, scale)

    def standard_normal(
        self, size: Size = None, dtype: Any = None, out: GPUArray | None = None
    ) -> GPUArray:
        """Normal numbers with mean 0 and standard deviation 1."""
        function = _native.random_normal
        return self._draw("standard_normal", function, size, dtype, out, None, 0.0, 1.0)

    def exponential(self, scale: Any = 1.0, size: Size = None, dtype: Any = "float32") -> GPUArray:
        """Exponential numbers with mean scale."""
        if is_array(scale):
            scale = self._parameter("exponential", "scale", scale)
            draw = self.standard_exponential(result_shape("exponential", size, scale), dtype)
            return _native.astype(_native.multiply(draw, scale), dtype, False)
        function = _native.random_exponential
        return self._draw("exponential", function, size, dtype, None, None, scale)

    def standard_exponential(
        self, size: Size = None, dtype: Any = None, out: GPUArray | None = None
    ) -> GPUArray:
        """Exponential numbers with mean 1."""
        function = _native.random_exponential
        return self._draw("standard_exponential", function, size, dtype, out, None, 1.0)

    def integers(
        self,
        low: int,
        high: int | None = None,
        size: Size = None,
        dtype: Any = "int64",
        endpoint: bool = False,
    ) -> GPUArray:
        """Integers in [low, high), including high with endpoint; one bound: from 0 up to it.

        All values are equally likely.
        """
        if high is None:
            low, high = 0, low
        first = whole("integers", "low", low, -_ANY_SIZE, _ANY_SIZE)
        last = whole("integers", "high", high, -_ANY_SIZE, _ANY_SIZE) - (not endpoint)
        wide = last - first >= 2**32
        function = _native.random_integers
        return self._draw("integers", function, size, dtype, None, wide, first, last)

    def bernoulli(self, p: float = 0.5, size: Size = None) -> GPUArray:
        """bool: true with probability p."""
        return self._draw("bernoulli", _native.random_bernoulli, size, "bool", None, False, p)


_unseeded_lock = threading.Lock()
_unseeded: Generator | None = None


def default_rng(seed: Any = None, *, device: Any = None) -> Generator:
    """A new generator: the same seed, an int, several or a SeedSequence, gives the same numbers.

    Without a seed: from PYGPUKIT_SEED, where every call in a process gets another stream, in
    order; else from the operating system. A Generator is returned unchanged. ``device`` is where
    arrays are created; default: the default device at the time of the call.
    """
    global _unseeded
    if isinstance(seed, Generator):
        return seed
    if seed is not None:
        return Generator(_key_from_seed(seed), device=device)
    configured = _native.config()["seed"]
    if configured is None:
        import os

        return Generator(int.from_bytes(os.urandom(8), "little"), device=device)
    with _unseeded_lock:
        if _unseeded is None:
            _unseeded = Generator(_key_from_seed(configured))
            return Generator(_unseeded.state["key"], device=device)
        key = _unseeded.spawn(1)[0].state["key"]
    return Generator(key, device=device)


__all__ = ["Generator", "default_rng"]
