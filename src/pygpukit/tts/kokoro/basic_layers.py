"""The layers of Kokoro on their own.

Sequences are [batch, channels, length] for convolutions and [batch, length, channels] for all else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.core.arguments import require_arrays
from pygpukit.core.errors import InvalidValueError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Layer = Callable[[GPUArray], GPUArray]


# --- activations ---
def leaky_relu(x: GPUArray, negative_slope: float = 0.1) -> GPUArray:
    """x, or negative_slope * x where x is negative."""
    return _native.leaky_relu(x, negative_slope)


def tanh(x: GPUArray) -> GPUArray:
    """The hyperbolic tangent."""
    return _native.tanh(x)


# --- layers ---
class Linear:
    """x w^T + bias; w is [out, in]."""

    def __init__(self, weight: GPUArray, bias: GPUArray | None = None) -> None:
        require_arrays("Linear", weight=weight)
        self.weight = weight
        self.bias = bias

    def __call__(self, x: GPUArray) -> GPUArray:
        return _native.linear(x, self.weight, self.bias)


class LayerNorm:
    """layernorm over the last axis."""

    def __init__(self, weight: GPUArray, bias: GPUArray | None = None, eps: float = 1e-5) -> None:
        require_arrays("LayerNorm", weight=weight)
        self.weight = weight
        self.bias = bias
        self.eps = eps

    def __call__(self, x: GPUArray) -> GPUArray:
        return _native.layernorm(x, self.weight, self.bias, self.eps)


class Conv1d:
    """A convolution; weight is [out, in / groups, taps]."""

    def __init__(
        self,
        weight: GPUArray,
        bias: GPUArray | None = None,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
    ) -> None:
        require_arrays("Conv1d", weight=weight)
        self.weight = weight
        self.bias = bias
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.groups = groups

    def __call__(self, x: GPUArray) -> GPUArray:
        return _native.conv1d(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )


class ConvTranspose1d:
    """A transposed convolution; weight is [in, out / groups, taps]."""

    def __init__(
        self,
        weight: GPUArray,
        bias: GPUArray | None = None,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        groups: int = 1,
    ) -> None:
        require_arrays("ConvTranspose1d", weight=weight)
        self.weight = weight
        self.bias = bias
        self.stride, self.padding = stride, padding
        self.output_padding = output_padding
        self.groups = groups

    def __call__(self, x: GPUArray) -> GPUArray:
        return _native.conv_transpose1d(
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.groups,
        )


class WeightNormConv1d(Conv1d):
    """A convolution with the weight g v / |v|, the norm over all axes but the first."""

    def __init__(
        self,
        weight_g: GPUArray,
        weight_v: GPUArray,
        bias: GPUArray | None = None,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
    ) -> None:
        require_arrays("WeightNormConv1d", weight_g=weight_g, weight_v=weight_v)
        if weight_v.ndim != 3 or weight_g.size != weight_v.shape[0]:
            raise InvalidValueError(
                f"WeightNormConv1d: weight_g has shape {weight_g.shape}, weight_v "
                f"{weight_v.shape}, expected (out, 1, 1) and (out, in, taps)"
            )
        self.weight_g = weight_g
        self.weight_v = weight_v
        super().__init__(self._folded(), bias, stride, padding, dilation)

    def _folded(self) -> GPUArray:
        squares = _native.sum(_native.square(self.weight_v), (1, 2), keepdims=True)
        norm = _native.sqrt(_native.add(squares, 1e-12))
        g = _native.reshape(self.weight_g, (-1, 1, 1))
        return _native.multiply(self.weight_v, _native.divide(g, norm))

    def _compute_weight(self) -> NDArray[Any]:
        return self.weight.to_numpy()


class InstanceNorm1d:
    """Every channel of every sample normalised by itself; x is [batch, channels, length]."""

    def __init__(
        self,
        gamma: GPUArray | None = None,
        beta: GPUArray | None = None,
        eps: float = 1e-5,
    ) -> None:
        self.gamma = gamma
        self.beta = beta
        self.eps = eps

    def __call__(self, x: GPUArray) -> GPUArray:
        return _native.instancenorm(x, self.gamma, self.beta, self.eps)


class AdaIN:
    """instancenorm(x) * scale + shift, both a linear function of a style.

    fc_weight is [2 channels, style]. `offset` is added to the scale: 1 in Kokoro's networks.
    """

    def __init__(
        self, fc_weight: GPUArray, fc_bias: GPUArray | None = None, *, offset: float = 0.0
    ) -> None:
        self.fc = Linear(fc_weight, fc_bias)
        self.offset = offset

    def __call__(self, x: GPUArray, style: GPUArray, eps: float = 1e-5) -> GPUArray:
        both = self.fc(style)
        channels = both.shape[1] // 2
        scale = _native.add(both[:, :channels], self.offset - 1.0)  # adain() adds 1
        return _native.adain(x, scale, both[:, channels:], eps)


class ResBlock1d:
    """Convolutions with leaky_relu between them, and a residual."""

    def __init__(self, convs: Sequence[Layer]) -> None:
        self.convs = list(convs)

    def __call__(self, x: GPUArray) -> GPUArray:
        y = x
        for i, conv in enumerate(self.convs):
            y = conv(leaky_relu(y) if i else y)
        return _native.add(y, x)


class AdaINResBlock:
    """norm, activation, convolution, twice, and a shortcut; the sum divided by sqrt(2)."""

    def __init__(
        self,
        conv1: Layer,
        conv2: Layer,
        norm1: AdaIN,
        norm2: AdaIN,
        conv1x1: Layer | None = None,
        pool: Layer | None = None,
        negative_slope: float = 0.2,
    ) -> None:
        self.conv1, self.conv2 = conv1, conv2
        self.norm1, self.norm2 = norm1, norm2
        self.conv1x1 = conv1x1
        self.pool = pool  # to twice the length
        self.negative_slope = negative_slope

    def __call__(self, x: GPUArray, style: GPUArray) -> GPUArray:
        y = leaky_relu(self.norm1(x, style), self.negative_slope)
        shortcut = x
        if self.pool is not None:
            y = self.pool(y)
            shortcut = _native.repeat(x, 2, 2)
        if self.conv1x1 is not None:
            shortcut = self.conv1x1(shortcut)
        y = leaky_relu(self.norm2(self.conv1(y), style), self.negative_slope)
        return _native.multiply(_native.add(self.conv2(y), shortcut), 0.5**0.5)


class LSTM:
    """An LSTM over [batch, steps, in]; with reverse weights in both directions."""

    def __init__(
        self,
        W_ih: GPUArray,
        W_hh: GPUArray,
        b_ih: GPUArray | None = None,
        b_hh: GPUArray | None = None,
        bidirectional: bool = False,
        W_ih_reverse: GPUArray | None = None,
        W_hh_reverse: GPUArray | None = None,
        b_ih_reverse: GPUArray | None = None,
        b_hh_reverse: GPUArray | None = None,
    ) -> None:
        require_arrays("LSTM", W_ih=W_ih, W_hh=W_hh)
        self.forward_weights = (W_ih, W_hh, b_ih, b_hh)
        self.reverse_weights: tuple[Any, ...] = (
            *(W_ih_reverse, W_hh_reverse),
            *(b_ih_reverse, b_hh_reverse),
        )
        self.bidirectional = bidirectional
        if bidirectional:
            require_arrays("LSTM", W_ih_reverse=W_ih_reverse, W_hh_reverse=W_hh_reverse)

    def __call__(self, x: GPUArray) -> tuple[GPUArray, tuple[GPUArray, GPUArray]]:
        """(outputs, (h_n, c_n)) with hidden states [directions, batch, hidden]."""
        if self.bidirectional:
            out, h, c = _native.lstm_bidirectional(x, *self.forward_weights, *self.reverse_weights)
            return out, (h, c)
        out, h, c = _native.lstm_forward(x, *self.forward_weights)
        return out, (_native.expand_dims(h, 0), _native.expand_dims(c, 0))
