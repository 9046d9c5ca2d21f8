// out = (x - mean) / sqrt(var + eps) * (offset + weight) + bias over rows; kRms has no mean, and
// mean(x**2) for var. With kNormResidual x is x + residual, rounded to T and stored in `sum`. With
// kNormQuantize out is e4m3 of the result over its row's scale, max(abs(result)) / 448.
// Weight and bias have an element per column, or with kNormChannels one per `span` columns.
// Grid: rows (row.cuh). Numerics: float32; the variance is that of x - mean, in a second pass.
#pragma once

#include "nn/row.cuh"

namespace gpk {

// Where the weights of element i of a row are: the element itself, or its channel.
template <unsigned kFlags>
struct Affine {
  long long base;
  int span;

  __device__ __forceinline__ Affine(const NormArgs& args, long long row) : base(0), span(1) {
    if constexpr ((kFlags & kNormChannels) != 0) {
      base = row / args.groups * args.affine_row +
             static_cast<long long>(row % args.groups) * args.channels;
      span = args.span;
    }
  }

  template <class W, int kV>
  __device__ __forceinline__ void load(const void* weights, int i, float (&w)[kV]) const {
    const W* from = static_cast<const W*>(weights) + base;
    if constexpr ((kFlags & kNormChannels) == 0) {
      load_floats<W, kV>(from + i, w);
    } else if (span % kV == 0) {
      const float one = to_compute(from[i / span]);
#pragma unroll
      for (int v = 0; v < kV; ++v) w[v] = one;
    } else {
#pragma unroll
      for (int v = 0; v < kV; ++v) w[v] = to_compute(from[(i + v) / span]);
    }
  }
};

template <class T, class W, NormMode kMode, unsigned kFlags, int kV, int kA>
__global__ void __launch_bounds__(kMaxRowGroup) norm_rows(const NormArgs args) {
  __shared__ float shared[3][32];
  const int group = args.group;
  const RowPlace at = place_row(group, args.rows);
  const long long row = at.active ? at.row : 0;
  Row<T, kV, kA> x(static_cast<const T*>(args.x) + row * args.x_row, at.lane, group,
                   at.active ? args.width : 0);
  if constexpr ((kFlags & kNormResidual) != 0)
    x.add(static_cast<const T*>(args.residual) + row * args.residual_row,
          static_cast<T*>(args.sum) + row * args.sum_row);

  const float n = static_cast<float>(args.width);
  float mean = 0.0f;
  if constexpr (kMode == NormMode::kLayer) {
    float sum = 0.0f;
    x.each([&](const float (&e)[kV], int) {
#pragma unroll
      for (int v = 0; v < kV; ++v) sum += e[v];
    });
    mean = combine<SumOp>(sum, group, shared[0]) / n;
  }
  float squares = 0.0f;
  x.each([&](const float (&e)[kV], int) {
#pragma unroll
    for (int v = 0; v < kV; ++v) squares = fmaf(e[v] - mean, e[v] - mean, squares);
  });
  const float scale = rsqrtf(combine<SumOp>(squares, group, shared[1]) / n + args.eps);

  const Affine<kFlags> affine(args, row);
  const auto normalise = [&](const float (&e)[kV], int i, float (&y)[kV]) {
#pragma unroll
    for (int v = 0; v < kV; ++v) y[v] = (e[v] - mean) * scale;
    if (args.weight != nullptr) {
      float w[kV];
      affine.template load<W>(args.weight, i, w);
#pragma unroll
      for (int v = 0; v < kV; ++v) y[v] *= args.offset + w[v];
    }
    if (args.bias != nullptr) {
      float b[kV];
      affine.template load<W>(args.bias, i, b);
#pragma unroll
      for (int v = 0; v < kV; ++v) y[v] += b[v];
    }
  };

  if constexpr ((kFlags & kNormQuantize) != 0) {
    float largest = 0.0f;
    x.each([&](const float (&e)[kV], int i) {
      float y[kV];
      normalise(e, i, y);
#pragma unroll
      for (int v = 0; v < kV; ++v) largest = fmaxf(largest, fabsf(y[v]));
    });
    largest = combine<MaxOp>(largest, group, shared[2]);
    const float unit = largest > 0.0f ? largest / 448.0f : 1.0f;
    if (at.active && at.lane == 0) args.scales[row] = unit;
    x.each([&](const float (&e)[kV], int i) {
      float y[kV];
      normalise(e, i, y);
#pragma unroll
      for (int v = 0; v < kV; ++v) y[v] /= unit;
      store_floats<float8_e4m3fn, kV>(
          static_cast<float8_e4m3fn*>(args.out) + row * args.out_row + i, y);
    });
  } else {
    x.each([&](const float (&e)[kV], int i) {
      float y[kV];
      normalise(e, i, y);
      store_floats<T, kV>(static_cast<T*>(args.out) + row * args.out_row + i, y);
    });
  }
}

}  // namespace gpk
