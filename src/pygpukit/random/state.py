"""A Generator with the methods of NumPy's older RandomState."""

from __future__ import annotations

from pygpukit.random.generator import Generator, _key_from_seed, default_rng

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pygpukit._native import GPUArray
    from pygpukit.random.distributions import Size


class RandomState(Generator):
    """RandomState(seed): rand, randn, randint and the like on top of a Generator.

    Without a seed the key is taken as default_rng takes it, at the first use.
    """

    def __init__(self, seed: Any = None, *, device: Any = None) -> None:
        super().__init__(0, device=device)
        self._key_or_none: int | None = None if seed is None else _key_from_seed(seed)

    @property
    def _key(self) -> int:
        if self._key_or_none is None:
            self._key_or_none = default_rng().state["key"]
        return self._key_or_none

    @_key.setter
    def _key(self, value: int) -> None:
        self._key_or_none = value

    def __setstate__(self, state: dict[str, Any]) -> None:
        RandomState.__init__(self, device=state["device"])
        self.state = {name: state[name] for name in ("key", "position", "num_spawned")}

    def seed(self, seed: Any = None) -> None:
        """Starts anew from an int or several; None: from the operating system."""
        key = None if seed is None else _key_from_seed(seed)
        with self._lock:
            self._key_or_none = key
            self._position = 0
            self._num_spawned = 0

    def get_state(self) -> dict[str, int]:
        """What set_state takes to go on from here."""
        return self.state

    def set_state(self, state: dict[str, int]) -> None:
        """Goes on from a state of get_state."""
        self.state = state

    def rand(self, *dims: int) -> GPUArray:
        """Uniform numbers in [0, 1) of shape dims."""
        return self.random(dims)

    def randn(self, *dims: int) -> GPUArray:
        """Normal numbers of shape dims."""
        return self.standard_normal(dims)

    def random_sample(self, size: Size = None) -> GPUArray:
        """Uniform numbers in [0, 1)."""
        return self.random(size)

    def randint(
        self, low: int, high: int | None = None, size: Size = None, dtype: Any = "int64"
    ) -> GPUArray:
        """Integers in [low, high); one bound: from 0 up to it."""
        return self.integers(low, high, size, dtype)


__all__ = ["RandomState"]
