"""Models of 0.2 that have modules of their own. They are loaded on first use."""

from pygpukit._lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit.llm.models import llama4

__all__ = ["llama4"]
if not TYPE_CHECKING:
    __getattr__ = lazy_names("pygpukit.llm.models", {}, ("llama4",))
