"""Rows of embedding tables, under the names of 0.2."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import require_arrays, whole
from pygpukit.core.errors import InvalidValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def embedding_lookup(table: GPUArray, out: GPUArray, token_id: int) -> None:
    """Copies row token_id of a table [vocabulary, dim] to out [1, dim]."""
    op = "embedding_lookup"
    _check(op, table)
    _check_out(op, table, out, 1)
    _native.copy_into(out, table[whole(op, "token_id", token_id)])


def embedding_lookup_ptr(table: GPUArray, out: GPUArray, token_id_buf: GPUArray) -> None:
    """embedding_lookup with the id in an int32 array of one element on the device."""
    _lookup("embedding_lookup_ptr", table, out, token_id_buf, 1)


def embedding_lookup_batch(
    table: GPUArray, out: GPUArray, token_ids_buf: GPUArray, batch_size: int
) -> None:
    """Copies the rows of the first batch_size ids to out [batch_size, dim]."""
    count = whole("embedding_lookup_batch", "batch_size", batch_size)
    _lookup("embedding_lookup_batch", table, out, token_ids_buf, count)


def _lookup(op: str, table: GPUArray, out: GPUArray, ids: GPUArray, count: int) -> None:
    _check(op, table)
    require_arrays(op, ids=ids)
    _check_out(op, table, out, count)
    if ids.size < count or ids.dtype.name not in ("int32", "int64"):
        raise InvalidValueError(
            f"{op}: the ids have shape {ids.shape} and dtype {ids.dtype}, expected {count} int32"
        )
    _native.copy_into(out, _native.take(table, ids.reshape((-1,))[:count], axis=0))


def _check(op: str, table: GPUArray) -> None:
    require_arrays(op, table=table)
    if table.ndim != 2:
        raise InvalidValueError(f"{op}: table has shape {table.shape}, expected (vocabulary, dim)")


def _check_out(op: str, table: GPUArray, out: GPUArray, rows: int) -> None:
    require_arrays(op, out=out)
    if out.shape != (rows, table.shape[1]) or out.dtype != table.dtype:
        raise InvalidValueError(
            f"{op}: out has shape {out.shape} and dtype {out.dtype}, expected "
            f"{(rows, table.shape[1])} and {table.dtype}"
        )


__all__ = ["embedding_lookup", "embedding_lookup_batch", "embedding_lookup_ptr"]

name_all(globals(), __all__)
