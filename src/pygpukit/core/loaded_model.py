"""What models that were loaded from a folder tell about their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:

    class Weighed(Protocol):
        """The core's part of a model."""

        @property
        def num_parameters(self) -> int: ...
        @property
        def num_bytes(self) -> int: ...
        def explain(self) -> str: ...


class LoadedModel:
    """Base of the models; subclasses set ``_model``."""

    _model: Weighed

    @property
    def num_parameters(self) -> int:
        """Elements of all weights."""
        return self._model.num_parameters

    @property
    def num_bytes(self) -> int:
        """Bytes of all weights."""
        return self._model.num_bytes

    def explain(self) -> str:
        """The steps of a pass through the model, as text."""
        return self._model.explain()


__all__ = ["LoadedModel"]
