"""Neural-network ops: rows against the copy rate, small rows against an empty graph node, grouped
GEMM against the dense one, sampling, convolutions and LSTM; all beside PyTorch.
"""

from __future__ import annotations

from typing import Any

from pygpukit import _native
from pygpukit.benchmark import nn_experts, nn_rows, nn_speech
from pygpukit.benchmark.contest import Case, Entry, run_case
from pygpukit.benchmark.measure import Step
from pygpukit.benchmark.report import OURS, BenchmarkResult
from pygpukit.benchmark.session import Session
from pygpukit.benchmark.sizes import NUM_SHAPES, Sizes
from pygpukit.benchmark.summary import note_ratios, note_speedups, shape_label
from pygpukit.jit.compiler import jit

ROWS = ((8192, 4096), (65536, 1024), (4096, 32768))
SMALL_ROWS = tuple((rows, width) for rows in (1, 8, 64) for width in (1024, 4096, 8192))
MANY_ROWS = 128  # of a group: the grouped GEMM is bound by arithmetic

EMPTY = 'extern "C" __global__ void empty(float* x) {}'


def run(session: Session) -> None:
    """Runs the suite."""
    _run_rows(session)
    _run_small_rows(session)
    _run_experts(session)
    dtypes = ("bfloat16",) if session.quick else ("bfloat16", "float32")
    _run_cases(
        session,
        "sampling",
        [
            nn_experts.sampling_case(how, batch, vocabulary, dtype)
            for dtype in dtypes
            for batch, vocabulary in nn_experts.sampling_shapes(session)
            for how in nn_experts.FILTERS
        ],
    )
    _run_cases(session, "conv1d", [nn_speech.conv_case(s) for s in nn_speech.conv_shapes(session)])
    _run_cases(session, "lstm", [nn_speech.lstm_case(s) for s in nn_speech.lstm_shapes(session)])


def _run_cases(session: Session, title: str, cases: list[Case]) -> None:
    rows = [row for case in cases for row in run_case(session, "nn", case)]
    note_speedups(session, f"nn, {title}", rows)


# --- rows ---------------------------------------------------------------------------------------


def row_shapes(session: Session) -> list[tuple[int, int]]:
    """Rows and width, beyond the L2."""
    if session.shapes_seed is not None:
        sizes = Sizes(session.shapes_seed, 7)
        widest, low, high = (65536, 2**25, 2**27) if session.on_gpu else (512, 2**8, 2**11)
        drawn = []
        for _ in range(NUM_SHAPES // 3):
            width = sizes.log(widest // 256, widest, 8)
            drawn.append((max(1, sizes.log(low, high) // width), width))
        return drawn
    if not session.on_gpu:
        return [(4, 256)]
    return [ROWS[0]] if session.quick else list(ROWS)


def small_row_shapes(session: Session) -> list[tuple[int, int]]:
    """Rows of one to 64 tokens."""
    if session.shapes_seed is not None:
        sizes = Sizes(session.shapes_seed, 8)
        widest = 8192 if session.on_gpu else 256
        return [(sizes.log(1, 64), sizes.log(widest // 16, widest, 8)) for _ in range(4)]
    if not session.on_gpu:
        return [(1, 128)]
    return list(SMALL_ROWS[::4] if session.quick else SMALL_ROWS)


def _run_rows(session: Session) -> None:
    copies: dict[int, float] = {}  # GB/s by bytes moved
    results = []
    for rows, width in row_shapes(session):
        for op in nn_rows.ROW_OPS:
            case = nn_rows.row_case(op, rows, width, rotate=True)
            row_bytes = 2 * rows * width  # weights and tables aside
            num_bytes = max(1, round(case.entries[0].bytes / row_bytes)) * row_bytes
            if num_bytes not in copies:
                copied = run_case(session, "nn", nn_rows.copy_case(num_bytes))
                copies[num_bytes] = max(r.bandwidth_gbps or 0.0 for r in copied)
            done = run_case(session, "nn", case)
            for row in done:
                row.extra["of_copy"] = (row.bandwidth_gbps or 0.0) / copies[num_bytes]
            results += _without_separate(done)
    note_speedups(session, "nn, rows", results)
    shares = {shape_label(r): r.extra["of_copy"] for r in results if r.impl == OURS}
    note_ratios(session, "nn, rows", "of the copy rate", shares)
    _note_fused(session, "nn, fused rows", results)


def _run_small_rows(session: Session) -> None:
    floor = run_case(session, "nn", _empty_case())[0].median_us if session.jit_works else None
    results = []
    for rows, width in small_row_shapes(session):
        for op in nn_rows.ROW_OPS:
            done = run_case(session, "nn", nn_rows.row_case(op, rows, width, rotate=False))
            for row in done:
                if floor is not None:
                    row.extra["over_node_us"] = row.median_us - floor
            results += _without_separate(done)
    note_speedups(session, "nn, small rows", results)
    _note_fused(session, "nn, small fused rows", results)
    over = {shape_label(r): r.extra["over_node_us"] for r in results if _is_ours_over(r)}
    if over:
        worst = max(over, key=lambda shape: over[shape])
        session.note(
            f"nn, small rows: {len(over)} shapes, us over an empty node: mean "
            f"{sum(over.values()) / len(over):.2f}, worst {over[worst]:.2f} ({worst})"
        )


def _without_separate(rows: list[BenchmarkResult]) -> list[BenchmarkResult]:
    """All but the ops one by one; our row of a fused function says how much longer they take."""
    separate = next((row for row in rows if row.name.endswith(nn_rows.SEPARATE)), None)
    if separate is None:
        return rows
    for row in rows:
        if row.impl == OURS and row is not separate:
            row.extra["over_separate"] = separate.median_us / row.median_us
    return [row for row in rows if row is not separate]


def _note_fused(session: Session, title: str, results: list[BenchmarkResult]) -> None:
    ratios = {
        shape_label(r): r.extra["over_separate"] for r in results if "over_separate" in r.extra
    }
    note_ratios(session, title, "speedup over the separate ops", ratios)


def _is_ours_over(row: BenchmarkResult) -> bool:
    return row.impl == OURS and "over_node_us" in row.extra


def _empty_case() -> Case:
    kernel = jit(EMPTY, "empty")

    def ours(x: Any) -> Step:
        return lambda: kernel(x, grid=1, block=32)

    return Case("empty_node", {}, lambda: (_native.zeros(1),), [Entry(ours)])


# --- grouped GEMM -------------------------------------------------------------------------------


def _run_experts(session: Session) -> None:
    results: list[BenchmarkResult] = []
    for shape in nn_experts.expert_shapes(session):
        for skewed in (False, True):
            rows = run_case(session, "nn", nn_experts.expert_case(shape, skewed))
            dense = next(row for row in rows if row.name == nn_experts.DENSE)
            for row in rows:
                if row is not dense:
                    row.extra["of_dense"] = dense.median_us / row.median_us
            results += [row for row in rows if row is not dense]
    note_speedups(session, "nn, grouped GEMM", results)
    shares = {
        shape_label(row): row.extra["of_dense"]
        for row in results
        if row.impl == OURS and row.params["rows"] >= MANY_ROWS
    }
    title = f"nn, grouped GEMM, {MANY_ROWS} rows and more"
    note_ratios(session, title, "of the dense GEMM", shares)
