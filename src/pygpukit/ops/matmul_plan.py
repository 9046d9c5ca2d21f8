"""The plan of a GEMM: which kernel, why, and the predicted times of the others."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.errors import InvalidTypeError
from pygpukit.ops.matmul import linear, matmul, matrix_transpose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _T = TypeVar("_T")


class MatmulExplanation(str):
    """The result of explain_matmul: text with structured parts.

    ``choice`` and ``candidates`` are dicts with engine, tile, splits, predicted_us and so on;
    ``reason`` is "model", "measured", "policy", "forced" or (no single plan) "copies". For a call
    with several GEMMs these are of the first one; ``products`` has all.
    """

    products: list[dict[str, Any]]
    choice: dict[str, Any] | None
    candidates: list[dict[str, Any]]
    reason: str

    def __new__(cls, products: list[dict[str, Any]]) -> MatmulExplanation:
        made = super().__new__(cls, "\n".join(product["text"] for product in products))
        made.products = products
        made.choice = products[0]["choice"]
        made.candidates = products[0]["candidates"]
        made.reason = products[0]["reason"]
        return made

    def __repr__(self) -> str:
        choice = "none" if self.choice is None else self.choice["text"]
        return f"<MatmulExplanation: {choice}, {self.reason}>"


def _call_of(
    op: str, a: GPUArray | Callable[[], Any], b: GPUArray | None, options: dict[str, Any]
) -> Callable[[], Any]:
    if isinstance(a, GPUArray):
        if not isinstance(b, GPUArray):
            raise InvalidTypeError(f"{op}: b is {safe_repr(b)}, expected a GPUArray")
        x, y = a, b
        if not options.keys().isdisjoint(("bias", "activation", "residual")):
            return lambda: linear(x, matrix_transpose(y), **options)
        return lambda: matmul(x, y, **options)
    if not callable(a):
        raise InvalidTypeError(f"{op}: a is {safe_repr(a)}, expected a GPUArray or a function")
    if b is not None or options:
        raise InvalidTypeError(f"{op}: a is a function, expected no other operand")
    return a


def explain_matmul(
    a: GPUArray | Callable[[], Any],
    b: GPUArray | None = None,
    /,
    *,
    sm: int | None = None,
    **options: Any,
) -> MatmulExplanation:
    """Which kernel ``matmul(a, b, **options)`` runs, why, and the other candidates. Runs nothing.

    With bias, activation or residual it is ``linear(a, b.T, **options)``. Pass any other call
    that runs GEMMs as a function: ``explain_matmul(lambda: gp.grouped_gemm(x, w, sizes))``.
    ``sm=80`` plans for another GPU; arrays on the CPU are planned for SM 90.
    """
    return MatmulExplanation(
        _native.explain_products(_call_of("explain_matmul", a, b, options), sm)
    )


def tune_matmul(
    a: GPUArray | Callable[[], Any], b: GPUArray | None = None, /, **options: Any
) -> list[list[tuple[str, float]]]:
    """Measures every kernel that could run ``matmul(a, b, **options)`` and stores the fastest.

    The choice is stored beside the kernel cache and used from then on. Returns the plans of each
    GEMM with their times in microseconds, fastest first. Needs a GPU. A function instead of
    arrays as in explain_matmul.
    """
    return _native.tune_products(_call_of("tune_matmul", a, b, options))


def with_matmul_plan(call: Callable[[], _T], plan: str, /) -> _T:
    """Runs ``call()`` with a plan of your choice for its GEMMs and returns its result.

    ``plan`` is a prefix of the text of a candidate of explain_matmul: the name of an engine
    ("mma"), or all of it. RuntimeError where a GEMM has no such candidate.
    """
    return _native.with_matmul_plan(call, plan)  # type: ignore[no-any-return]


__all__ = ["MatmulExplanation", "explain_matmul", "tune_matmul", "with_matmul_plan"]
