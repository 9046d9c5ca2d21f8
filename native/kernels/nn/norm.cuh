// out = (x - mean) / sqrt(var + eps) * (offset + weight) + bias over rows; kRms has no mean, and
// mean(x**2) for var. With kNormResidual x is x + residual, rounded to T and stored in `sum`. With
// kNormQuantize out is e4m3 of the result over its row's scale, max(abs(result)) / 448.
// Weight and bias have an element per column, or with kNormChannels one per `span` columns.
// Grid: rows (row.cuh). Numerics: float32; the variance is that of x - mean, in a second pass.
#pragma once

#include "common/dependent_launch.cuh"
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

// Weights and biases of a thread's columns, kept in registers from row to row where they fit.
template <class W, unsigned kFlags, int kV, int kA>
class HeldWeights {
 public:
  static constexpr bool kHeld = kA == 4 && (kFlags & (kNormChannels | kNormResidual)) == 0;

  __device__ __forceinline__ HeldWeights(const void* weights, int lane, int group, int width)
      : weights_(weights) {
    if constexpr (kHeld) {
      if (weights == nullptr) return;
#pragma unroll
      for (int a = 0; a < kA; ++a) {
        const int i = (lane + a * group) * kV;
        const W* const from = static_cast<const W*>(weights) + i;
        if (i >= width) continue;
        if constexpr (kV == 1) {
          *reinterpret_cast<W*>(raw_[a].words) = *from;
        } else {
#pragma unroll
          for (int j = 0; j < kWords; j += 4)
            *reinterpret_cast<Vec<unsigned, 4>*>(&raw_[a].words[j]) =
                load_vec<unsigned, 4>(reinterpret_cast<const unsigned*>(from) + j);
        }
      }
    }
  }

  __device__ __forceinline__ bool given() const { return weights_ != nullptr; }
  __device__ __forceinline__ void get(const Affine<kFlags>& affine, int i, int a,
                                      float (&w)[kV]) const {
    if constexpr (kHeld) {
      Raw raw = raw_[a];
      // Or the compiler keeps them as float32, in twice as many registers.
#pragma unroll
      for (int j = 0; j < kWords; ++j) hide(raw.words[j]);
#pragma unroll
      for (int v = 0; v < kV; ++v) w[v] = to_compute(reinterpret_cast<const W*>(raw.words)[v]);
    } else {
      affine.template load<W>(weights_, i, w);
    }
  }

 private:
  static constexpr int kWords = kHeld ? (kV * sizeof(W) + 3) / 4 : 1;
  struct alignas(16) Raw {
    unsigned words[kWords];
  };

  const void* weights_;
  Raw raw_[kHeld ? kA : 1];
};

// Every step rounds, or the bits would depend on what the compiler contracts: fused functions
// (fused_rows.cuh) give those of the op alone.
__device__ __forceinline__ float normalised(float x, float mean, float scale) {
  return __fmul_rn(__fsub_rn(x, mean), scale);
}
__device__ __forceinline__ float weighted(float x, float offset, float weight) {
  return __fmul_rn(x, __fadd_rn(offset, weight));
}
__device__ __forceinline__ float biased(float x, float bias) { return __fadd_rn(x, bias); }

template <class T, class W, NormMode kMode, unsigned kFlags, int kV, int kA>
__global__ void __launch_bounds__(kMaxRowGroup) norm_rows(const NormArgs args) {
  constexpr bool kResidual = (kFlags & kNormResidual) != 0;
  __shared__ float shared[2][3][16];
  start_dependent();
  const int group = args.group;
  RowPlace at(group);
  using Stream = RowStream<T, kV, kA, kResidual ? 2 : 1>;
  Stream stream = [&] {
    const unsigned slots = shared_address(dynamic_shared());
    if constexpr (kResidual) {
      const RowArray arrays[2] = {{args.x, args.x_row}, {args.residual, args.residual_row}};
      return Stream(arrays, at, args.rows, args.width, slots);
    } else {
      const RowArray arrays[1] = {{args.x, args.x_row}};
      return Stream(arrays, at, args.rows, args.width, slots);
    }
  }();
  const HeldWeights<W, kFlags, kV, kA> weights(args.weight, at.lane, group, args.width);
  const HeldWeights<W, kFlags, kV, kA> biases(args.bias, at.lane, group, args.width);
  const float n = static_cast<float>(args.width);

  for (int turn = 0; at.first < args.rows; at.next(), turn ^= 1) {
    const bool active = at.row < args.rows;
    const long long row = active ? at.row : 0;
    stream.wait();
    Row<T, kV, kA> x = stream.template get<0>(at);
    if constexpr (kResidual)
      x.add(stream.template get<1>(at), static_cast<T*>(args.sum) + row * args.sum_row);
    stream.next(at);

    float mean = 0.0f;
    if constexpr (kMode == NormMode::kLayer) {
      float sum = 0.0f;
      x.each([&](const float (&e)[kV], int, int) {
#pragma unroll
        for (int v = 0; v < kV; ++v) sum += e[v];
      });
      mean = combine<SumOp>(sum, group, shared[turn][0]) / n;
    }
    float squares = 0.0f;
    x.each([&](const float (&e)[kV], int, int) {
#pragma unroll
      for (int v = 0; v < kV; ++v) squares = fmaf(e[v] - mean, e[v] - mean, squares);
    });
    const float scale = rsqrtf(combine<SumOp>(squares, group, shared[turn][1]) / n + args.eps);

    const Affine<kFlags> affine(args, row);
    const auto normalise = [&](const float (&e)[kV], int i, int a, float (&y)[kV]) {
#pragma unroll
      for (int v = 0; v < kV; ++v) y[v] = normalised(e[v], mean, scale);
      if (weights.given()) {
        float w[kV];
        weights.get(affine, i, a, w);
#pragma unroll
        for (int v = 0; v < kV; ++v) y[v] = weighted(y[v], args.offset, w[v]);
      }
      if (biases.given()) {
        float b[kV];
        biases.get(affine, i, a, b);
#pragma unroll
        for (int v = 0; v < kV; ++v) y[v] = biased(y[v], b[v]);
      }
    };

    if constexpr ((kFlags & kNormQuantize) != 0) {
      float largest = 0.0f;
      x.each([&](const float (&e)[kV], int i, int a) {
        float y[kV];
        normalise(e, i, a, y);
#pragma unroll
        for (int v = 0; v < kV; ++v) largest = fmaxf(largest, fabsf(y[v]));
      });
      largest = combine<MaxOp>(largest, group, shared[turn][2]);
      const float unit = largest > 0.0f ? largest / 448.0f : 1.0f;
      if (active && at.lane == 0) args.scales[row] = unit;
      x.each([&](const float (&e)[kV], int i, int a) {
        float y[kV];
        normalise(e, i, a, y);
#pragma unroll
        for (int v = 0; v < kV; ++v) y[v] /= unit;
        store_floats<float8_e4m3fn, kV>(
            static_cast<float8_e4m3fn*>(args.out) + row * args.out_row + i, y);
      });
    } else {
      x.each([&](const float (&e)[kV], int i, int a) {
        float y[kV];
        normalise(e, i, a, y);
        store_floats<T, kV>(static_cast<T*>(args.out) + row * args.out_row + i, y);
      });
    }
    if constexpr (!Stream::kAhead) break;
  }
}

}  // namespace gpk
