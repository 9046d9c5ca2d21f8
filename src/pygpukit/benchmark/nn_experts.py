"""Grouped GEMM and sampling as cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.benchmark.contest import Arrays, Case, Entry
from pygpukit.benchmark.measure import Step
from pygpukit.benchmark.oracle import relative_error, sample_indices, to_float64
from pygpukit.benchmark.session import Session
from pygpukit.benchmark.sizes import NUM_SHAPES, Sizes
from pygpukit.random import default_rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

VOCABULARY = 151936
DENSE = "dense_gemm"  # the row beside grouped_gemm


@dataclass(frozen=True)
class Experts:
    """y[i] = x[i] w[expert of i]^T, `rows` for each of the experts on average."""

    num: int
    rows: int
    n: int
    k: int


EXPERTS = (
    Experts(8, 2048, 14336, 4096),
    Experts(8, 512, 4096, 14336),
    Experts(8, 8, 4096, 14336),
    Experts(64, 512, 2048, 2048),
    Experts(64, 128, 2048, 1408),
    Experts(128, 256, 1536, 2048),
    Experts(128, 128, 2048, 768),
    Experts(128, 32, 1536, 2048),
)


def expert_shapes(session: Session) -> list[Experts]:
    """From 8 to 128 experts."""
    if session.shapes_seed is not None:
        sizes = Sizes(session.shapes_seed, 3)
        if not session.on_gpu:
            return [Experts(sizes.log(2, 8), sizes.log(1, 9), sizes.log(8, 64, 8), 16)]
        return [
            Experts(
                sizes.log(8, 128),
                sizes.log(8, 1024),
                sizes.log(512, 4096, 64),
                sizes.log(512, 4096, 64),
            )
            for _ in range(NUM_SHAPES // 2)
        ]
    if not session.on_gpu:
        return [Experts(4, 6, 24, 16)]
    return list(EXPERTS[::3] if session.quick else EXPERTS)


def group_sizes(shape: Experts, skewed: bool) -> NDArray[Any]:
    """Rows of each expert: all alike, or drawn with very different probabilities."""
    import numpy as np

    if not skewed:
        return np.full(shape.num, shape.rows, np.int32)
    rng = np.random.default_rng(shape.num + shape.rows)
    shares = rng.dirichlet(np.full(shape.num, 0.5))
    return rng.multinomial(shape.num * shape.rows, shares).astype(np.int32)


def expert_case(shape: Experts, skewed: bool) -> Case:
    """Sizes of groups are on the device; the dense GEMM of the same work is a row of its own."""
    import numpy as np

    sizes = group_sizes(shape, skewed)
    m = shape.num * shape.rows
    owner = np.repeat(np.arange(shape.num), sizes)
    flops = 2.0 * m * shape.n * shape.k

    def arrays() -> Arrays:
        random = default_rng(6)
        x = random.standard_normal((m, shape.k), dtype="bfloat16")
        w = random.standard_normal((shape.num, shape.n, shape.k), dtype="bfloat16")
        return x, w, _native.from_numpy(sizes), _native.empty((m, shape.n), "bfloat16")

    def error_with(experts: NDArray[Any]) -> Callable[[Arrays, Any], float]:
        def error(given: Arrays, out: Any) -> float:
            x, w = given[:2]
            got, ref = [], []
            for i in sample_indices(m, 6).tolist():
                for part in (slice(0, 128), slice(-128, None)):
                    weights = to_float64(w[int(experts[i]), part])
                    ref.append(weights @ to_float64(x[i]))
                    got.append(to_float64(out[i, part]))
            return relative_error(np.stack(got), np.stack(ref))

        return error

    def grouped(x: Any, w: Any, sizes: Any, out: Any) -> Step:
        return lambda: _native.grouped_gemm(x, w, sizes, out=out)

    def dense(x: Any, w: Any, sizes: Any, out: Any) -> Step:
        first = w[0].T
        return lambda: _native.matmul(x, first, out=out)

    def theirs(torch: Any, x: Any, w: Any, sizes: Any, out: Any) -> Step:
        ends = torch.cumsum(sizes, 0).to(torch.int32)
        transposed = w.transpose(1, 2)
        return lambda: torch._grouped_mm(x, transposed, offs=ends)

    error = error_with(owner)
    return Case(
        "grouped_gemm",
        {
            "experts": shape.num,
            "rows": shape.rows,
            "n": shape.n,
            "k": shape.k,
            "sizes": "skewed" if skewed else "even",
            "dtype": "bfloat16",
        },
        arrays,
        [
            Entry(grouped, error, flops=flops),
            Entry(dense, error_with(np.zeros_like(owner)), name=DENSE, flops=flops),
            Entry(theirs, error, impl="torch", flops=flops),
        ],
        rotated_bytes=2 * shape.num * shape.n * shape.k,
    )


# --- sampling -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filter:
    """How tokens are drawn."""

    name: str
    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 1.0


FILTERS = (
    Filter("greedy", temperature=0.0),
    Filter("plain"),
    Filter("top_k", top_k=50),
    Filter("top_p", top_p=0.9),
)


def sampling_shapes(session: Session) -> list[tuple[int, int]]:
    """Batch and vocabulary."""
    if session.shapes_seed is not None:
        sizes = Sizes(session.shapes_seed, 4)
        low, high, most = (16000, 262144, 64) if session.on_gpu else (300, 900, 3)
        return [(sizes.log(1, most), sizes.log(low, high)) for _ in range(3)]
    return [(1, VOCABULARY), (32, VOCABULARY)] if session.on_gpu else [(2, 1000)]


def sampling_case(how: Filter, batch: int, vocabulary: int, dtype: str) -> Case:
    """Tokens of all rows in one launch, with steps counted on the device."""

    def arrays() -> Arrays:
        logits = default_rng(7).normal(0.0, 3.0, (batch, vocabulary), dtype)
        return logits, _native.zeros(batch, "int64"), _native.empty(batch, "int32")

    def ours(logits: Any, steps: Any, out: Any) -> Step:
        filters = (how.temperature, how.top_k, how.top_p)
        return lambda: _native.sample(logits, *filters, seed=1, step=steps, out=out)

    def theirs(torch: Any, logits: Any, steps: Any, out: Any) -> Step:
        return lambda: _torch_sample(torch, how, logits)

    def error(given: Arrays, out: Any) -> float:
        tokens = to_float64(out).reshape(-1)
        rows = sample_indices(batch, 4).tolist()
        possible = all(is_possible(how, to_float64(given[0][i]), int(tokens[i])) for i in rows)
        return 0.0 if possible else float("inf")

    size = 4 if dtype == "float32" else 2
    return Case(
        f"sample_{how.name}",
        {"batch": batch, "vocabulary": vocabulary, "dtype": dtype},
        arrays,
        [
            Entry(build, error, impl=impl, bytes=size * batch * vocabulary)
            for impl, build in (("pygpukit", ours), ("torch", theirs))
        ],
    )


def _torch_sample(torch: Any, how: Filter, logits: Any) -> Any:
    """The usual way in PyTorch, without a wait for the device."""
    if not how.temperature:
        return logits.argmax(-1)
    x = logits.float() / how.temperature
    ids = None
    if how.top_k:
        x, ids = torch.topk(x, how.top_k)
    elif how.top_p < 1:
        x, ids = torch.sort(x, descending=True)
    p = torch.softmax(x, -1)
    if how.top_p < 1:
        p = torch.where(p.cumsum(-1) - p < how.top_p, p, 0)
    best = (p / torch.empty_like(p).exponential_()).argmax(-1, keepdim=True)
    return (best if ids is None else ids.gather(-1, best))[:, 0]


def is_possible(how: Filter, logits: NDArray[Any], token: int) -> bool:
    """Whether the filters leave this token, up to rounding."""
    import numpy as np

    if not 0 <= token < logits.size:
        return False
    chosen = logits[token]
    above = logits > chosen
    if not how.temperature:
        return not above.any()
    if how.top_k and above.sum() >= how.top_k:
        return False
    p = np.exp((logits - logits.max()) / how.temperature)
    return bool(p[above].sum() / p.sum() < how.top_p + 1e-3)
