// Rotary positions: pairs (a, b) of a head become (a cos - b sin, b cos + a sin). kInterleaved
// pairs are neighbours, else element j goes with element half + j; what follows the 2 * half
// rotated elements is copied. The angle of a pair is a row of the tables, or position times sin[j]
// where cos is nullptr (reduced in float64). Beyond the tables the result is NaN. Layout: RopeArgs.
// Grid: a thread per kV pairs, then per kV elements of the tail. In place if x is out. Numerics:
// float32.
#pragma once

#include "nn/row.cuh"

namespace gpk {

template <int kV>
struct Angles {
  float cos[kV];
  float sin[kV];
};

template <class W, int kV>
__device__ __forceinline__ Angles<kV> angles_at(const RopeArgs& args, long long position, int j) {
  Angles<kV> angles;
  if (args.cos == nullptr) {
    constexpr double kTurnsPerRadian = 0.15915494309189533577;
#pragma unroll
    for (int v = 0; v < kV; ++v) {
      const double turns = static_cast<double>(position) *
                           static_cast<const float*>(args.sin)[j + v] * kTurnsPerRadian;
      sincospif(2.0f * static_cast<float>(turns - rint(turns)), &angles.sin[v], &angles.cos[v]);
      angles.sin[v] *= args.factor;
      angles.cos[v] *= args.factor;
    }
    return angles;
  }
  if (position < 0 || position >= args.table_rows) {
#pragma unroll
    for (int v = 0; v < kV; ++v) angles.cos[v] = angles.sin[v] = __int_as_float(0x7fffffff);
    return angles;
  }
  load_floats<W, kV>(static_cast<const W*>(args.cos) + position * args.cos_row + j, angles.cos);
  load_floats<W, kV>(static_cast<const W*>(args.sin) + position * args.sin_row + j, angles.sin);
  return angles;
}

template <class T, class W, class Index, bool kInterleaved, int kV>
__global__ void __launch_bounds__(256) rope(const RopeArgs args) {
  const long long item = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x;
  if (item >= args.num_items) return;
  const int rotations = args.half / kV;
  const int per_head = rotations + args.tail / kV;
  const int k = static_cast<int>(item % per_head);
  const long long token_head = item / per_head;
  const int head = static_cast<int>(token_head % args.heads);
  const long long token = token_head / args.heads;
  const long long batch = token / args.seq;
  const int s = static_cast<int>(token % args.seq);
  const T* x =
      static_cast<const T*>(args.x) + batch * args.x_batch + s * args.x_seq + head * args.x_head;
  T* out =
      static_cast<T*>(args.out) + batch * args.out_batch + s * args.out_seq + head * args.out_head;
  if (k >= rotations) {
    const int at = 2 * args.half + (k - rotations) * kV;
    store_vec<T, kV>(out + at, load_vec<T, kV>(x + at));
    return;
  }
  const long long position =
      args.positions == nullptr
          ? args.start + s
          : static_cast<const Index*>(args.positions)[batch * args.positions_batch + s];
  const int j = k * kV;
  const Angles<kV> angle = angles_at<W, kV>(args, position, j);
  if constexpr (kInterleaved) {
    float a[kV];
    float b[kV];
    load_floats<T, kV>(x + 2 * j, a);
    load_floats<T, kV>(x + 2 * j + kV, b);
    const auto rotate = [](float (&pairs)[kV], const float* cos, const float* sin) {
#pragma unroll
      for (int v = 0; v < kV / 2; ++v) {
        const float first = pairs[2 * v];
        const float second = pairs[2 * v + 1];
        pairs[2 * v] = first * cos[v] - second * sin[v];
        pairs[2 * v + 1] = second * cos[v] + first * sin[v];
      }
    };
    if constexpr (kV == 1) {
      const float first = a[0] * angle.cos[0] - b[0] * angle.sin[0];
      b[0] = b[0] * angle.cos[0] + a[0] * angle.sin[0];
      a[0] = first;
    } else {
      rotate(a, angle.cos, angle.sin);
      rotate(b, angle.cos + kV / 2, angle.sin + kV / 2);
    }
    store_floats<T, kV>(out + 2 * j, a);
    store_floats<T, kV>(out + 2 * j + kV, b);
  } else {
    float a[kV];
    float b[kV];
    load_floats<T, kV>(x + j, a);
    load_floats<T, kV>(x + args.half + j, b);
    float c[kV];
    float d[kV];
#pragma unroll
    for (int v = 0; v < kV; ++v) {
      c[v] = a[v] * angle.cos[v] - b[v] * angle.sin[v];
      d[v] = b[v] * angle.cos[v] + a[v] * angle.sin[v];
    }
    store_floats<T, kV>(out + j, c);
    store_floats<T, kV>(out + args.half + j, d);
  }
}

}  // namespace gpk
