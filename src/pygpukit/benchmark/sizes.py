"""Random sizes, so that heuristics are judged on shapes that nobody tuned for."""

from __future__ import annotations

import math

NUM_SHAPES = 12  # of a group of cases


class Sizes:
    """Sizes from a seed; `salt` separates groups of cases."""

    def __init__(self, seed: int, salt: int) -> None:
        import numpy as np

        self._rng = np.random.default_rng([seed, salt])

    def log(self, low: int, high: int, multiple: int = 1) -> int:
        """Log-uniform in [low, high], rounded to a multiple."""
        drawn = math.exp(self._rng.uniform(math.log(low), math.log(high)))
        return max(multiple, round(drawn / multiple) * multiple)

    def one(self, *choices: int) -> int:
        """One of the choices."""
        return int(self._rng.choice(choices))
