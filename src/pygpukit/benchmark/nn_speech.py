"""Convolutions of Whisper and Kokoro, and LSTM, as cases."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from pygpukit import _native
from pygpukit.benchmark.contest import Arrays, Case, Entry
from pygpukit.benchmark.measure import Step
from pygpukit.benchmark.oracle import relative_error, sample_indices, to_float64
from pygpukit.benchmark.product_cases import TOLERANCE
from pygpukit.benchmark.session import Session
from pygpukit.benchmark.sizes import NUM_SHAPES, Sizes
from pygpukit.random import default_rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEPS_CHECKED = 64


@dataclass(frozen=True)
class Conv:
    """A 1-D convolution of one sequence, with a bias; transposed: it upsamples by the stride."""

    name: str
    channels: int
    outputs: int
    length: int
    taps: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    transposed: bool = False
    gelu: bool = False
    dtype: str = "bfloat16"

    @property
    def out_length(self) -> int:
        """Outputs along the sequence."""
        reach = self.dilation * (self.taps - 1) + 1
        if self.transposed:
            return (self.length - 1) * self.stride - 2 * self.padding + reach
        return (self.length + 2 * self.padding - reach) // self.stride + 1


def whisper_stem(mels: int, width: int) -> tuple[Conv, Conv]:
    """Both convolutions over 30 s."""
    return (
        Conv("whisper_stem", mels, width, 3000, 3, 1, 1, gelu=True),
        Conv("whisper_stem", width, width, 3000, 3, 2, 1, gelu=True),
    )


def dilated(channels: int, length: int, taps: int, dilation: int) -> Conv:
    """A layer of Kokoro's residual blocks."""
    padding = dilation * (taps - 1) // 2
    return Conv("kokoro_block", channels, channels, length, taps, 1, padding, dilation)


CONVS = (
    *whisper_stem(80, 384),
    *whisper_stem(128, 1280),
    *(
        dilated(channels, length, taps, dilation)
        for channels, length in ((512, 600), (256, 6000), (128, 36001))
        for taps, dilation in ((3, 1), (7, 3), (11, 5))
    ),
    Conv("kokoro_upsample", 512, 256, 600, 20, 10, 5, transposed=True),
    Conv("kokoro_upsample", 256, 128, 6000, 12, 6, 3, transposed=True),
)


def conv_shapes(session: Session) -> list[Conv]:
    """Whisper in bfloat16, Kokoro in bfloat16 and float32."""
    if session.shapes_seed is not None:
        sizes = Sizes(session.shapes_seed, 5)
        widest, longest = (512, 32768) if session.on_gpu else (32, 64)
        drawn = [
            dilated(
                sizes.log(widest // 8, widest, 8),
                sizes.log(longest // 64 + 1, longest),
                sizes.one(3, 5, 7, 9, 11),
                sizes.one(1, 2, 3, 5),
            )
            for _ in range(NUM_SHAPES // 2)
        ]
        return [replace(conv, name="conv1d") for conv in drawn]
    if not session.on_gpu:
        return [
            Conv("whisper_stem", 8, 16, 30, 3, 2, 1, gelu=True),
            Conv("kokoro_upsample", 8, 4, 10, 12, 6, 3, transposed=True, dtype="float32"),
            dilated(8, 20, 7, 3),
        ]
    single = [replace(c, dtype="float32") for c in CONVS if c.name.startswith("kokoro")]
    return list(CONVS[::4]) if session.quick else [*CONVS, *single]


def conv_case(shape: Conv) -> Case:
    """Bias and activation are part of our launch."""
    weights = (
        (shape.channels, shape.outputs) if shape.transposed else (shape.outputs, shape.channels)
    )
    inputs = shape.length if shape.transposed else shape.out_length
    options: dict[str, Any] = {
        "stride": shape.stride,
        "padding": shape.padding,
        "dilation": shape.dilation,
    }

    def arrays() -> Arrays:
        random = default_rng(8)
        scale = 1 / math.sqrt(shape.channels * shape.taps)
        x = random.standard_normal((1, shape.channels, shape.length), dtype=shape.dtype)
        w = random.normal(0.0, scale, (*weights, shape.taps), shape.dtype)
        b = random.standard_normal((shape.outputs,), dtype=shape.dtype)
        return x, w, b, _native.empty((1, shape.outputs, shape.out_length), shape.dtype)

    def ours(x: Any, w: Any, b: Any, out: Any) -> Step:
        activation: Literal["gelu_erf"] | None = "gelu_erf" if shape.gelu else None
        call = _native.conv_transpose1d if shape.transposed else _native.conv1d
        return lambda: call(x, w, b, activation=activation, out=out, **options)

    def theirs(torch: Any, x: Any, w: Any, b: Any, out: Any) -> Step:
        _set_up_cudnn(torch)
        f = torch.nn.functional
        call = f.conv_transpose1d if shape.transposed else f.conv1d
        if shape.gelu:
            return lambda: f.gelu(call(x, w, b, **options))
        return lambda: call(x, w, b, **options)

    def error(given: Arrays, out: Any) -> float:
        x, w, b = (to_float64(array) for array in given[:3])
        channels = sample_indices(shape.outputs, 8)
        places = sample_indices(shape.out_length, 32)
        got = to_float64(out[0])[channels][:, places]
        return relative_error(got, conv_reference(shape, x[0], w, b, channels, places))

    flops = 2.0 * shape.channels * shape.outputs * shape.taps * inputs
    size = f"{shape.channels}x{shape.length} to {shape.outputs}x{shape.out_length}"
    return Case(
        shape.name,
        {"size": size, "taps": shape.taps, "dilation": shape.dilation, "dtype": shape.dtype},
        arrays,
        [
            Entry(build, error, impl=impl, flops=flops, tolerance=TOLERANCE[shape.dtype])
            for impl, build in (("pygpukit", ours), ("torch", theirs))
        ],
    )


def _set_up_cudnn(torch: Any) -> None:
    """Process-wide: its best algorithm, float32 in full."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False


def conv_reference(
    shape: Conv,
    x: NDArray[Any],
    w: NDArray[Any],
    b: NDArray[Any],
    channels: NDArray[Any],
    places: NDArray[Any],
) -> NDArray[Any]:
    """Outputs of these channels and places in float64."""
    import numpy as np

    total = np.repeat(b[channels][:, None], len(places), 1)
    for tap in range(shape.taps):
        if shape.transposed:
            at, rest = np.divmod(places + shape.padding - tap * shape.dilation, shape.stride)
            kernel = w[:, channels, tap].T
        else:
            at = places * shape.stride - shape.padding + tap * shape.dilation
            rest, kernel = np.zeros_like(at), w[channels, :, tap]
        inside = (at >= 0) & (at < shape.length) & (rest == 0)
        total[:, inside] += kernel @ x[:, at[inside]]
    if shape.gelu:
        total = 0.5 * total * (1 + np.vectorize(math.erf)(total / math.sqrt(2)))
    return total


# --- LSTM ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lstm:
    """Bidirectional, with as many inputs as hidden units."""

    batch: int
    hidden: int = 512
    steps: int = 500
    dtype: str = "float32"


def lstm_shapes(session: Session) -> list[Lstm]:
    """Batches of 1, 4 and 16."""
    if session.shapes_seed is not None:
        sizes = Sizes(session.shapes_seed, 6)
        widest, longest = (1024, 600) if session.on_gpu else (32, 12)
        return [
            Lstm(
                sizes.log(1, 32 if session.on_gpu else 3),
                sizes.log(widest // 8, widest, 8),
                sizes.log(longest // 6, longest),
            )
            for _ in range(4)
        ]
    if not session.on_gpu:
        return [Lstm(2, 16, 10)]
    if session.quick:
        return [Lstm(1)]
    return [Lstm(batch, dtype=dtype) for dtype in ("float32", "float16") for batch in (1, 4, 16)]


def lstm_case(shape: Lstm) -> Case:
    """Both directions."""
    hidden = shape.hidden
    shapes = [(4 * hidden, hidden), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,)] * 2

    def arrays() -> Arrays:
        random = default_rng(9)
        x = random.standard_normal((shape.batch, shape.steps, hidden), dtype=shape.dtype)
        scale = 0.5 / math.sqrt(hidden)
        return x, *(random.normal(0.0, scale, size, shape.dtype) for size in shapes)

    def ours(x: Any, *weights: Any) -> Step:
        return lambda: _native.lstm_bidirectional(x, *weights)

    def theirs(torch: Any, x: Any, *weights: Any) -> Step:
        _set_up_cudnn(torch)
        layer = torch.nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
        layer = layer.to("cuda", x.dtype).requires_grad_(False)
        for parameter, weight in zip(layer.parameters(), weights, strict=True):
            parameter.copy_(weight)
        layer.flatten_parameters()
        return lambda: layer(x)[0]

    def error(given: Arrays, out: Any) -> float:
        return lstm_error(shape, given, out[0] if isinstance(out, tuple) else out)

    flops = 2.0 * 2 * shape.batch * shape.steps * 4 * hidden * 2 * hidden
    tolerance = 1e-4 if shape.dtype == "float32" else 5e-3
    return Case(
        "lstm_bidirectional",
        {
            "batch": shape.batch,
            "hidden": hidden,
            "steps": shape.steps,
            "dtype": shape.dtype,
        },
        arrays,
        [
            Entry(build, error, impl=impl, flops=flops, tolerance=tolerance)
            for impl, build in (("pygpukit", ours), ("torch", theirs))
        ],
    )


def lstm_error(shape: Lstm, given: Arrays, out: Any) -> float:
    """Of the first steps of each direction, for the last sample; the rest has to be finite."""
    import numpy as np

    got = to_float64(out)[-1]
    if got.shape != (shape.steps, 2 * shape.hidden) or not np.isfinite(got).all():
        return float("inf")
    x = to_float64(given[0][shape.batch - 1])
    count = min(STEPS_CHECKED, shape.steps)
    errors = []
    for direction, first in ((1, 1), (-1, 5)):
        weights = [to_float64(w) for w in given[first : first + 4]]
        ref = _lstm_reference(x[::direction][:count], *weights)
        part = got[:, : shape.hidden] if direction == 1 else got[:, shape.hidden :]
        errors.append(relative_error(part[::direction][:count], ref))
    return max(errors)


def _lstm_reference(
    x: NDArray[Any], w_ih: NDArray[Any], w_hh: NDArray[Any], b_ih: NDArray[Any], b_hh: NDArray[Any]
) -> NDArray[Any]:
    import numpy as np

    def sigmoid(a: NDArray[Any]) -> Any:
        return 1 / (1 + np.exp(-a))

    h = c = np.zeros(w_hh.shape[1])
    outs = []
    for gates in x @ w_ih.T + b_ih + b_hh:
        i, f, g, o = np.split(gates + w_hh @ h, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outs.append(h)
    return np.stack(outs)
