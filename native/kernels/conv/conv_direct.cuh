// Convolution without tensor cores, for few channels of a group (depthwise above all):
//   plain:      out[o] = sum over c, t of w[co][c][t] x[c][o * stride + t * dilation - pad]
//   transposed: out[o] = sum over c, t of w[c][co][t] x[c][i], i * stride + t * dilation - pad = o
// then the epilogue; float32 sums in order of channels and taps. A chunk of a row of the output
// belongs to 2^lane_bits threads, kConvDirectOutputs outputs each, so that accesses are coalesced;
// what neighbours share comes from the L1.
#pragma once

#include "conv/epilogue.cuh"

namespace gpk {

// The line (row chunk) of a thread, and its place in it.
struct ConvLine {
  long long row;
  int first;  // first output of the thread
  int step;   // to its next one
  bool inside;

  __device__ __forceinline__ explicit ConvLine(const ConvDirectGrid& grid) {
    const long long id = static_cast<long long>(blockIdx.x) * kConvDirectThreads + threadIdx.x;
    const long long line = id >> grid.lane_bits;
    step = 1 << grid.lane_bits;
    inside = line < grid.num_lines;
    row = line / grid.chunks;
    first = static_cast<int>(line % grid.chunks) * step * kConvDirectOutputs +
            static_cast<int>(id & (step - 1));
  }
};

template <class T, bool kTransposed>
__global__ void __launch_bounds__(kConvDirectThreads, 4)
    conv_direct(const __grid_constant__ ConvArgs args,
                const __grid_constant__ ConvDirectGrid grid) {
  const ConvLine line(grid);
  if (!line.inside) return;
  const int out_channels = args.out_channels * args.groups;
  const int oh = static_cast<int>(line.row % args.out_h);
  const int channel = static_cast<int>(line.row / args.out_h % out_channels);
  const long long batch = line.row / args.out_h / out_channels;
  const int group = channel / args.out_channels;
  const T* const x = static_cast<const T*>(args.x) + batch * args.x_batch +
                     static_cast<long long>(group) * args.in_channels * args.x_channel;
  const int taps = args.kernel_h * args.kernel_w;
  const T* const w =
      static_cast<const T*>(args.w) +
      (kTransposed ? (static_cast<long long>(group) * args.in_channels * args.out_channels +
                      channel % args.out_channels) *
                         taps
                   : static_cast<long long>(channel) * args.in_channels * taps);
  const long long w_step = kTransposed ? static_cast<long long>(args.out_channels) * taps : taps;

  float sums[kConvDirectOutputs] = {};
  for (int c = 0; c < args.in_channels; ++c)
    for (int i = 0; i < args.kernel_h; ++i) {
      const int ih = oh * args.stride_h - args.pad_h + i * args.dilation_h;
      if (!kTransposed && (ih < 0 || ih >= args.in_h)) continue;
      const T* const row = x + c * args.x_channel + (kTransposed ? 0 : ih * args.x_row);
      const T* const weights = w + c * w_step + i * args.kernel_w;
      for (int j = 0; j < args.kernel_w; ++j) {
        const float weight = to_compute(weights[j]);
#pragma unroll
        for (int e = 0; e < kConvDirectOutputs; ++e) {
          const int ow = line.first + e * line.step;
          int iw;
          bool hit = true;
          if constexpr (kTransposed) {
            const int at = ow + args.pad_w - j * args.dilation_w;
            iw = at / args.stride_w;
            hit = at >= 0 && at % args.stride_w == 0;
          } else {
            iw = ow * args.stride_w - args.pad_w + j * args.dilation_w;
          }
          if (hit && iw >= 0 && iw < args.in_w) sums[e] += weight * to_compute(row[iw]);
        }
      }
    }

  T* const out = static_cast<T*>(args.out) + batch * args.out_batch + channel * args.out_channel +
                 oh * args.out_row;
  const T* const residual = static_cast<const T*>(args.residual) + batch * args.residual_batch +
                            channel * args.residual_channel + oh * args.residual_row;
#pragma unroll
  for (int e = 0; e < kConvDirectOutputs; ++e) {
    const int ow = line.first + e * line.step;
    if (ow >= args.out_w) break;
    float v = conv_finish<T>(args, sums[e], channel);
    if (args.residual != nullptr) v += to_compute(residual[ow]);
    out[ow] = from_compute<T>(v);
  }
}

}  // namespace gpk
