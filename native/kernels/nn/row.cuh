// One row shared by `group` threads, read from memory once.
// Thread `lane` owns kA accesses of kV elements, `group` accesses apart, so that a warp's accesses
// are coalesced. group <= 32 is a power of two and a block of kRowBlock threads has several rows;
// above, it is a multiple of 32 and the block has one row. kA = 0 is for rows that do not fit into
// registers: every pass reads memory again.
// Numerics: float32. The order of a sum depends on width and group only, never on the other rows.
#pragma once

#include "args/nn.h"
#include "common/floats.cuh"

namespace gpk {

using namespace kernels;

struct RowPlace {
  long long row;
  int lane;
  bool active;
};

__device__ __forceinline__ RowPlace place_row(int group, long long rows) {
  RowPlace at;
  if (group > 32) {
    at.row = blockIdx.x;
    at.lane = static_cast<int>(threadIdx.x);
  } else {
    const int per_block = kRowBlock / group;
    at.row = static_cast<long long>(blockIdx.x) * per_block + static_cast<int>(threadIdx.x) / group;
    at.lane = static_cast<int>(threadIdx.x) & (group - 1);
  }
  at.active = at.row < rows;
  return at;
}

// In registers, in the dtype they have in memory.
template <class T, int kV, int kA>
class Row {
 public:
  __device__ __forceinline__ Row(const T* row, int lane, int group, int width)
      : first_(lane * kV), step_(group * kV), width_(width) {
#pragma unroll
    for (int a = 0; a < kA; ++a)
      if (index(a) < width_) raw_[a] = load_vec<T, kV>(row + index(a));
  }

  // Adds `other`, rounds to T and stores the sum. Four loads in flight: more would spill.
  __device__ __forceinline__ void add(const T* other, T* sum) {
#pragma unroll
    for (int first = 0; first < kA; first += 4) {
      Vec<T, kV> raw[4];
#pragma unroll
      for (int a = 0; a < 4; ++a)
        if (index(first + a) < width_) raw[a] = load_vec<T, kV>(other + index(first + a));
#pragma unroll
      for (int a = 0; a < 4; ++a) {
        if (index(first + a) >= width_) continue;
        Vec<T, kV>& mine = raw_[first + a];
#pragma unroll
        for (int v = 0; v < kV; ++v)
          mine.v[v] = convert<T>(to_compute(mine.v[v]) + to_compute(raw[a].v[v]));
        store_vec<T, kV>(sum + index(first + a), mine);
      }
    }
  }

  // f(kV elements, index of the first) for every access of this thread.
  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
#pragma unroll
    for (int a = 0; a < kA; ++a) {
      if (index(a) >= width_) continue;
      float x[kV];
#pragma unroll
      for (int v = 0; v < kV; ++v) x[v] = to_compute(raw_[a].v[v]);
      f(x, index(a));
    }
  }

 private:
  __device__ __forceinline__ int index(int a) const { return first_ + a * step_; }

  Vec<T, kV> raw_[kA];
  const int first_;
  const int step_;
  const int width_;
};

// In memory.
template <class T, int kV>
class Row<T, kV, 0> {
 public:
  __device__ __forceinline__ Row(const T* row, int lane, int group, int width)
      : row_(row), first_(lane * kV), step_(group * kV), width_(width) {}

  __device__ __forceinline__ void add(const T* other, T* sum) {
    for (int i = first_; i < width_; i += step_) {
      float x[kV];
      float y[kV];
      load_floats<T, kV>(row_ + i, x);
      load_floats<T, kV>(other + i, y);
#pragma unroll
      for (int v = 0; v < kV; ++v) x[v] += y[v];
      store_floats<T, kV>(sum + i, x);
    }
    row_ = sum;  // every thread reads back what it wrote itself
  }

  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
#pragma unroll 4
    for (int i = first_; i < width_; i += step_) {
      float x[kV];
      load_floats<T, kV>(row_ + i, x);
      f(x, i);
    }
  }

 private:
  const T* row_;
  const int first_;
  const int step_;
  const int width_;
};

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xff800000); }

struct SumOp {
  static __device__ __forceinline__ float identity() { return 0.0f; }
  static __device__ __forceinline__ float run(float a, float b) { return a + b; }
};

struct MaxOp {
  static __device__ __forceinline__ float identity() { return minus_infinity(); }
  static __device__ __forceinline__ float run(float a, float b) { return fmaxf(a, b); }
};

// Over the threads of a row; all of them get the same bits. `shared` has 32 places, other ones for
// each call of a kernel. For all threads of the block.
template <class Op>
__device__ __forceinline__ float combine(float x, int group, float* shared) {
  for (int o = (group < 32 ? group : 32) / 2; o > 0; o /= 2)
    x = Op::run(x, __shfl_xor_sync(0xffffffffu, x, o));
  if (group <= 32) return x;
  const int lane = static_cast<int>(threadIdx.x) & 31;
  if (lane == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  x = lane < group / 32 ? shared[lane] : Op::identity();
#pragma unroll
  for (int o = 16; o > 0; o /= 2) x = Op::run(x, __shfl_xor_sync(0xffffffffu, x, o));
  return x;
}

}  // namespace gpk
