"""One small case of every built-in kernel, for the simulator with all checks on.

Most rows are cases of the families' own tables. Sizes are those of a tile or two: an interpreter
runs them. dtypes repeat, so that few kernels are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from cases import (
    attention,
    audio,
    conv,
    few_rows,
    fft,
    float64_int8,
    linalg,
    manipulation,
    matmul,
    moe,
    nn,
    paged_cache,
    products,
    recurrent,
    reduction,
    run_attention,
    run_audio,
    run_chain,
    run_conv,
    run_fft,
    run_linalg,
    run_moe,
    run_nn,
    run_paged_cache,
    run_recurrent,
    run_sampling,
    run_sorting,
    sampling,
    sorting,
)
from cases.sim_calls import (
    biquad,
    block_scaled,
    casts,
    complex_functions,
    conv_case,
    copies,
    fused,
    grouped,
    indexed,
    maps,
    of_table,
    packed,
    packed_gemm,
    product,
    quantized_input,
    ramps,
    random_numbers,
    sparse,
    split_product,
    sums,
    whisper,
)


@dataclass(frozen=True)
class Case:
    family: str
    name: str
    run: Callable[[], object]
    sm: int = 0  # on that architecture only

    def __str__(self) -> str:
        return f"{self.family}-{self.name}"


L = reduction.Layout
ATTEND = attention.Case
CAUSAL = {"causal": True}

CASES = (
    Case("elementwise", "map", maps),
    Case("elementwise", "cast", casts),
    Case("elementwise", "copy", copies),
    Case("elementwise", "complex", partial(complex_functions, "exp", "sqrt", "tanh", "log1p")),
    Case("elementwise", "fuse", fused),
    Case(
        "elementwise",
        "concat",
        of_table(
            (case for case in manipulation.CASES if case.op.name.startswith(("concat", "stack"))),
            manipulation.run_case,
            "concat1-((3,5),(3,1),(3,33))-int8-contiguous",
            "concat1-((3,5),(3,1),(3,33))-complex128-contiguous",
            "concat1-((3,5),(3,1),(3,33))-float32-contiguous",
            "concat1-((3,5),(3,1),(3,33))-int32-transposed",
        ),
    ),
    Case("creation", "ramp", ramps),
    Case(
        "random",
        "draw",
        partial(
            random_numbers,
            "random-dtype=float32",
            "standard_normal-dtype=float32",
            "integers-low=-1-high=4294967294",
            "bernoulli-p=0.25",
        ),
    ),
    Case(
        "random",
        "variate",
        partial(random_numbers, "gamma-shape=2.5-scale=0.3-dtype=float32", "poisson-lam=3.5"),
    ),
    # --- reductions, scans, sorts, indexing
    Case(
        "reduction",
        "sum",
        partial(
            sums,
            "sum",
            "float32",
            L((3, 700), 1),
            L((129, 8), 1),
            L((40, 33), 0),
            L((4099,), None),
            L((5, 6, 7), (0, 2)),
            L((40, 50), 1, key=slice(None, None, 2)),
        ),
    ),
    Case("reduction", "argmax", partial(sums, "argmax", "float32", L((700,), None), L((9, 32), 0))),
    Case("reduction", "var", partial(sums, "var", "float32", L((3, 700), 1))),
    Case("reduction", "max", partial(sums, "max", "bfloat16", L((65, 64), 1))),
    Case(
        "reduction",
        "scan",
        partial(sums, "cumsum", "float32", L((5000,), None), L((5, 40), 1), L((40, 5), 0)),
    ),
    Case(
        "sorting",
        "rows",
        lambda: [
            run_sorting.run_sort_case(sorting.SortCase("float32", s)) for s in ((300,), (3, 33))
        ],
    ),
    Case(
        "sorting",
        "radix",
        lambda: run_sorting.run_sort_case(sorting.SortCase("float32", (8833,), descending=True)),
    ),
    Case(
        "sorting",
        "complex",
        lambda: run_sorting.run_sort_case(sorting.SortCase("complex64", (33,))),
    ),
    Case("sorting", "unique", lambda: run_sorting.run_unique("float32", 300, "few")),
    Case("sorting", "search", lambda: run_sorting.run_search("float32", 100)),
    Case("sorting", "histogram", lambda: run_sorting.run_histogram("float32", 500, 10)),
    Case("sorting", "quantile", lambda: run_sorting.run_quantiles("float32", (7, 33), 1)),
    Case("indexing", "keys", indexed),
    # --- GEMM
    Case("matmul", "wgmma", partial(product, "wgmma", "bfloat16", 70, 64, 200), sm=90),
    Case(
        "matmul",
        "wgmma cluster",
        partial(product, "wgmma", "bfloat16", 130, 64, 128, cluster=2),
        sm=90,
    ),
    *(
        Case(
            "matmul",
            f"reversed {layout}, {out}",
            partial(
                matmul.run_case,
                matmul.Case("matmul", "bfloat16", (2, 70, 64), (2, 64, 64), layout, out),
            ),
            sm=90,
        )
        for layout, out in (("rr", "new"), ("cc", "r"))
    ),
    Case(  # stages that are used again
        "matmul",
        "wgmma stages",
        partial(product, "wgmma(kernel=0, tile=64x64x64", "bfloat16", 128, 64, 1024),
        sm=90,
    ),
    Case("matmul", "wgmma split", partial(product, "wgmma", "bfloat16", 64, 64, 4096), sm=90),
    Case(  # two consumers, whose sums take the place of the stages
        "matmul",
        "wgmma split, odd width",
        partial(product, "wgmma(kernel=1, tile=128x144", "bfloat16", 128, 144, 320, layout="ct"),
        sm=90,
    ),
    Case("matmul", "mma", partial(product, "mma", "bfloat16", 70, 64, 200)),
    Case("matmul", "mma split", partial(product, "mma", "bfloat16", 64, 64, 2048)),
    Case("matmul", "simt split", partial(product, "simt", "float32", 65, 64, 256)),
    Case("matmul", "3xtf32", split_product),
    Case("matmul", "general", partial(product, "general", "float64", 33, 40, 20)),
    Case("matmul", "float64 in slices", lambda: float64_int8.run(float64_int8.CASES[0])),
    Case("matmul", "slices not finite", float64_int8.run_not_finite),
    Case("matmul", "general direct", partial(product, "general", "int32", 3, 5, 20)),
    Case(
        "matmul",
        "general rows",
        partial(product, "general(kernel=1", "bfloat16", 1, 64, 256, layout="ct"),
    ),
    Case("matmul", "gemv", partial(product, "gemv", "bfloat16", 1, 64, 256, layout="ct")),
    Case("matmul", "gemv columns", partial(product, "gemv", "bfloat16", 1, 64, 256)),
    Case(
        "matmul",
        "gemv ring",
        partial(product, "gemv(kernel=4", "bfloat16", 1, 528, 1024, layout="ct"),
        sm=90,
    ),
    Case("matmul", "gemv float32", partial(product, "gemv", "float32", 1, 64, 256, layout="ct")),
    Case(
        "matmul",
        "few rows",
        lambda: [
            few_rows.run_few_rows(few_rows.FewRows("bfloat16", m, 64, 256)) for m in (1, 4, 20)
        ],
    ),
    Case(
        "matmul",
        "swiglu",
        lambda: few_rows.run_few_rows(
            few_rows.FewRows("bfloat16", 8, 64, 64, "swiglu", normed=True)
        ),
    ),
    Case(
        "matmul",
        "epilogue",
        lambda: products.run_linear(
            products.Linear("bfloat16", (65, 64), 72, "gelu", True, "full")
        ),
    ),
    Case(
        "matmul",
        "swiglu apart",
        lambda: products.run_linear(products.Linear("bfloat16", (65, 64), 72, "swiglu", True)),
    ),
    Case("matmul", "grouped", partial(grouped, 0)),
    Case("matmul", "grouped mma", partial(grouped, 1)),
    Case("matmul", "grouped wgmma", partial(grouped, 2), sm=90),
    Case(
        "matmul",
        "scaled fp8",
        lambda: products.run_scaled(
            products.Scaled(
                "float8_e4m3fn", "float8_e4m3fn", (64, 256), 64, "vv", True, "bfloat16"
            ),
            sums=2.0**-12,
        ),
    ),
    Case(
        "matmul",
        "scaled int8",
        lambda: products.run_scaled(
            products.Scaled("int8", "int8", (64, 256), 64, "vv", True, "bfloat16")
        ),
    ),
    # --- packed weights
    *(
        Case("quantize", f"{fmt} {m}", partial(packed, fmt, m))
        for fmt, m in (
            ("int8", 1),
            ("int4", 1),
            ("fp8", 1),
            ("nvfp4", 1),
            ("mxfp4", 1),
            ("nf4", 1),
            ("mxfp8", 1),
            ("int4", 20),
            ("nvfp4", 20),
        )
    ),
    Case("quantize", "dequantize", partial(packed, "int8", 70, "float32")),
    Case("quantize", "zero point", partial(packed, "int4", 1, group=32, zero_point=True)),
    Case("quantize", "block", partial(packed, "fp8", 3, block=True)),
    Case("quantize", "gemm int4", partial(packed_gemm, "int4")),
    Case("quantize", "gemm fp8", partial(packed_gemm, "fp8")),
    Case("quantize", "gemm, one tile", partial(packed_gemm, "int4", 64)),
    Case("quantize", "block scaled", block_scaled, sm=90),
    *(
        Case("quantize", f"{kind}input {fmt}", partial(quantized_input, fmt, plan), sm=sm)
        for fmt in ("mxfp8", "mxfp4", "nvfp4")
        for kind, plan, sm in (
            ("", "dequantize", 0),
            ("native large ", "scaled_mma(kernel=0", 120),
            ("native small ", "scaled_mma(kernel=1", 120),
        )
    ),
    Case("quantize", "2:4", partial(sparse, 0, 70, 40, 200, "bfloat16")),
    Case("quantize", "2:4 small", partial(sparse, 1, 20, 70, 131, "float16")),
    Case("quantize", "2:4 one row", partial(sparse, 2, 1, 17, 66, "bfloat16")),
    Case("quantize", "2:4 splits", partial(sparse, 2, 3, 20, 1100, "bfloat16", True)),
    # --- networks
    Case(
        "nn",
        "norm",
        of_table(
            nn.CASES,
            run_nn.run_case,
            "rmsnorm-float32-5x64",
            "add_layernorm-float32-5x64",
            "rmsnorm-bfloat16-2x3x128",
            "groupnorm-float32-2x4x64-by-2",
            "rmsnorm-float32-2x4099",
        ),
    ),
    Case("nn", "norm fp8", lambda: run_nn.run_fp8((3, 64), "bfloat16")),
    Case(
        "nn",
        "softmax",
        of_table(
            nn.CASES,
            run_nn.run_case,
            "softmax-float32-5x64",
            "log_softmax-float32-3x1000",
            "softmax-float32-3x40x9-axis1",
            "softmax-float32-4x33-mask-33-axis-1",
        ),
    ),
    Case(
        "nn",
        "rope",
        of_table(
            nn.CASES,
            run_nn.run_case,
            "rope-bfloat16-5x2x64-by-16-float32-halves",
            "rope_computed-bfloat16-2x3x1x130-by-64-pairs",
        ),
    ),
    Case(
        "nn",
        "embedding",
        of_table(
            nn.CASES,
            run_nn.run_case,
            "embedding-bfloat16-2x5-of-64-int32-float32-positions",
            "embedding-bfloat16-7-of-33-int32-bfloat16-start",
        ),
    ),
    Case(
        "nn",
        "log_likelihood",
        of_table(nn.CASES, run_nn.run_case, "log_likelihood-float32-5x33-int32"),
    ),
    Case(
        "attention",
        "prefill",
        lambda: run_attention.run_case(
            ATTEND("bfloat16", 70, 70, heads=2, kv_heads=1, batch=1, options=CAUSAL)
        ),
    ),
    Case(
        "attention",
        "prefill wgmma",
        lambda: run_attention.run_case(
            ATTEND("bfloat16", 200, 200, heads=2, kv_heads=1, dim=128, batch=1, options=CAUSAL)
        ),
        sm=90,
    ),
    Case(  # stages that are used again; three consumers and a short tail
        "attention",
        "prefill wgmma stages",
        lambda: [
            run_attention.run_case(case)
            for case in (
                ATTEND("bfloat16", 130, 500, heads=1, kv_heads=1, dim=128, batch=1, options=CAUSAL),
                ATTEND("float16", 130, 71, heads=2, kv_heads=1, batch=1),
            )
        ],
        sm=90,
    ),
    Case("attention", "tile, steps", run_attention.run_steps, sm=90),
    Case(
        "attention",
        "tile",
        lambda: run_attention.run_case(ATTEND("bfloat16", 33, 70, batch=1, arrays=("mask",))),
    ),
    Case(
        "attention",
        "decode",
        lambda: run_attention.run_case(ATTEND("bfloat16", 1, 300, batch=2, options=CAUSAL)),
    ),
    Case(
        "attention",
        "paged",
        lambda: run_attention.run_case(
            ATTEND("bfloat16", 1, 48, page=16, arrays=("lengths",), options=CAUSAL)
        ),
    ),
    Case(
        "attention",
        "paged fp8",
        lambda: run_attention.run_case(
            ATTEND(
                "bfloat16",
                1,
                64,
                page=32,
                narrow=True,
                arrays=("lengths",),
                options={"k_scale": 0.5, "v_scale": 2.0, "causal": True},
            )
        ),
    ),
    Case(
        "attention",
        "paged fp8 prompt",
        lambda: run_attention.run_case(
            ATTEND(
                "bfloat16",
                40,
                64,
                page=16,
                spare=2,
                narrow=True,
                packed=True,
                arrays=("lengths",),
                options={"k_scale": 0.5, "v_scale": 2.0, "causal": True},
            )
        ),
    ),
    Case(
        "attention",
        "simt",
        lambda: run_attention.run_case(
            ATTEND("float32", 5, 9, dim=16, options=CAUSAL, arrays=("bias", "sinks"))
        ),
    ),
    Case(
        "kv_cache",
        "write",
        of_table(
            paged_cache.CASES,
            run_paged_cache.run_case,
            "rope-bfloat16",
            "norm and rope-bfloat16",
            "fp8-bfloat16",
        ),
    ),
    Case("kv_cache", "pages", lambda: run_paged_cache.run_pages("bfloat16", 16)),
    Case("kv_cache", "slots", run_paged_cache.run_slots),
    Case("moe", "route", lambda: run_moe.run_route(moe.Route(17, 8, 2, {"renormalize": True}))),
    Case(
        "moe",
        "permute few",
        lambda: run_moe.run_permute(moe.Permute(19, 3, 5, 8, "bfloat16", "wild")),
    ),
    Case("moe", "permute", lambda: run_moe.run_permute(moe.Permute(700, 4, 60, 8, "bfloat16"))),
    Case("moe", "mlp", lambda: run_moe.run_mlp(5, "bfloat16")),
    Case(
        "sampling",
        "sample",
        of_table(
            sampling.CASES,
            run_sampling.run_case,
            "all-float32-1000",
            "penalties-float32-33",
            "mask-float32-33",
        ),
    ),
    Case("sampling", "logprobs", lambda: run_sampling.run_logprobs(width=200)),
    Case("sampling", "timestamps", run_sampling.run_timestamp_rules),
    Case("sampling", "counts", run_sampling.run_counts),
    Case(
        "conv",
        "direct",
        lambda: run_conv.run_case(conv_case("conv1d", (2, 12, 70), (12, 1, 4), groups=12)),
    ),
    Case(
        "conv",
        "mma",
        lambda: run_conv.run_case(
            conv_case("conv2d", (1, 16, 8, 8), (32, 16, 3, 3), padding=1, dtype="bfloat16")
        ),
    ),
    Case(
        "conv",
        "transposed",
        lambda: run_conv.run_case(
            conv_case("conv_transpose1d", (1, 24, 20), (24, 16, 4), stride=2, padding=1)
        ),
    ),
    Case(
        "conv",
        "causal",
        of_table(conv.CASES, run_conv.run_case, "causal_conv1d-2x5x37-4-state-float32"),
    ),
    Case("chain", "decode", run_chain.run_tiny, sm=90),
    Case("chain", "whisper", run_chain.run_whisper, sm=90),
    Case(
        "recurrent",
        "layers",
        of_table(
            recurrent.CASES,
            run_recurrent.run_case,
            "lstm_forward-1x7x20-33-float32",
            "gru_bidirectional-2x5x3-8-float32",
        ),
    ),
    Case(
        "recurrent",
        "scan",
        of_table(
            recurrent.CASES,
            run_recurrent.run_case,
            "selective_scan-2x9x40-16-float32",
            "selective_scan-1x4x1030-16-float32",
        ),
    ),
    Case(
        "linalg",
        "leaves",
        lambda: [
            run(linalg.Case("random", "float32", (2, 9, 9)))
            for run in (
                run_linalg.run_cholesky,
                run_linalg.run_lu,
                run_linalg.run_solve,
                run_linalg.run_triangular,
                run_linalg.run_qr,
                run_linalg.run_eigh,
            )
        ],
    ),
    Case(
        "linalg",
        "blocked",
        lambda: [
            run(linalg.Case("random", "float32", (40, 40)), blocked=True)
            for run in (run_linalg.run_lu, run_linalg.run_qr)
        ],
    ),
    Case(
        "linalg",
        "panels",
        lambda: [
            run(linalg.Case("random", "float32", shape))
            for run, shape in (
                (run_linalg.run_lu, (270, 10)),
                (run_linalg.run_qr, (270, 10)),
                (run_linalg.run_cholesky, (70, 70)),
            )
        ],
    ),
    Case(
        "linalg",
        "doubles",
        lambda: run_linalg.run_cholesky(linalg.Case("random", "float64", (90, 90))),
    ),
    Case("linalg", "svd", lambda: run_linalg.run_svd(linalg.Case("random", "float32", (7, 3)))),
    Case(
        "linalg",
        "spectrum",
        lambda: [
            run_linalg.run_eigh(linalg.Case("random", "float32", (66, 66)), halves=(True,)),
            run_linalg.run_eigh(linalg.Case("clustered", "complex128", (50, 50)), halves=(False,)),
            run_linalg.run_svd(linalg.Case("deficient", "float32", (66, 66)), sizes=(True,)),
        ],
    ),
    Case(
        "fft",
        "block",
        lambda: [
            run_fft.run_case(c)
            for c in (
                fft.Case("fft", (3, 64), "complex64"),
                fft.Case("rfft", (2, 100), "float32"),
                fft.Case("ifft", (2, 16, 5), "complex64", options={"axis": 1}),
                fft.Case("irfft", (2, 33), "complex64"),
            )
        ],
    ),
    Case("fft", "general", lambda: run_fft.run_case(fft.Case("fft", (2, 77), "complex64"))),
    Case("fft", "bluestein", lambda: run_fft.run_case(fft.Case("fft", (2, 97), "complex64"))),
    Case("fft", "long", lambda: run_fft.run_case(fft.Case("rfft", (1, 65536), "float32"))),
    Case(
        "audio", "spectrogram", of_table(audio.CASES, run_audio.run_case, "golden-stft", "log_mel")
    ),
    Case("audio", "whisper", whisper),
    Case(
        "audio",
        "filters",
        of_table(
            audio.CASES,
            run_audio.run_case,
            "fir",
            "median-time",
            "resample-3-7",
            "overlap-add",
            "crossings",
            "energy",
        ),
    ),
    Case("audio", "biquad", biquad),
)
