// Depthwise causal convolution of a sequence that continues one before it:
//   out[t] = activation(bias + sum over j of w[j] in[t - (taps - 1) + j])
// where in[-1], in[-2], ... are the end of `state`; state_out gets the last taps - 1 inputs. Sums
// in float32. Lines as in conv_direct. Where one thread has a whole row, state_out may be state.
#pragma once

#include "conv/conv_direct.cuh"

namespace gpk {

template <class T>
__global__ void __launch_bounds__(kConvDirectThreads, 4)
    causal_conv(const __grid_constant__ CausalConvArgs args) {
  const ConvLine line(args.grid);
  if (!line.inside) return;
  const long long batch = line.row / args.channels;
  const int channel = static_cast<int>(line.row % args.channels);
  const int past = args.taps - 1;
  const T* const x =
      static_cast<const T*>(args.x) + batch * args.x_batch + channel * args.x_channel;
  const T* const state =
      args.state == nullptr ? nullptr : static_cast<const T*>(args.state) + line.row * past;
  const T* const w = static_cast<const T*>(args.w) + static_cast<long long>(channel) * args.taps;
  // Element i of the input, or of what came before it.
  const auto input = [&](int i) -> T {
    if (i >= 0) return x[i];
    return state == nullptr ? convert<T>(0.0f) : state[past + i];
  };

  float sums[kConvDirectOutputs];
  const float bias =
      args.bias == nullptr ? 0.0f : to_compute(static_cast<const T*>(args.bias)[channel]);
#pragma unroll
  for (int e = 0; e < kConvDirectOutputs; ++e) sums[e] = bias;
  for (int j = 0; j < args.taps; ++j) {
    const float weight = to_compute(w[j]);
#pragma unroll
    for (int e = 0; e < kConvDirectOutputs; ++e) {
      const int t = line.first + e * line.step;
      if (t < args.length) sums[e] += weight * to_compute(input(t - past + j));
    }
  }
  T* const out = static_cast<T*>(args.out) + batch * args.out_batch + channel * args.out_channel;
#pragma unroll
  for (int e = 0; e < kConvDirectOutputs; ++e) {
    const int t = line.first + e * line.step;
    if (t < args.length) out[t] = from_compute<T>(conv_activate(args.activation, sums[e]));
  }
  if (line.first != 0) return;
  // Ascending: in place, an element is read before it is overwritten.
  T* const last = static_cast<T*>(args.state_out) + line.row * past;
  for (int i = 0; i < past; ++i) last[i] = input(args.length - past + i);
}

}  // namespace gpk
