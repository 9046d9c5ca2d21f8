// Rows that `group` threads share, each read from memory once. Blocks that fetch rows ahead are
// persistent and step through them; others have those of their place only.
// Thread `lane` owns kA accesses of kV elements, `group` accesses apart, so that a warp's accesses
// are coalesced. group <= 32 is a power of two and a block of kRowBlock threads has several rows;
// above, it is a multiple of 32 and the block has one row. kA = 0 is for rows that do not fit into
// registers: every pass reads memory again.
// Numerics: float32. The order of a sum depends on width and group only, never on the other rows.
#pragma once

#include "args/nn.h"
#include "common/cp_async.cuh"
#include "common/floats.cuh"

namespace gpk {

using namespace kernels;

// The row of a thread, and the next ones.
struct RowPlace {
  long long first;  // of the block
  long long row;
  long long step;  // from the block's row to its next
  int lane;
  int group;

  __device__ __forceinline__ explicit RowPlace(int group) : group(group) {
    const int per_block = group > 32 ? 1 : kRowBlock / group;
    first = static_cast<long long>(blockIdx.x) * per_block;
    step = static_cast<long long>(gridDim.x) * per_block;
    lane = static_cast<int>(threadIdx.x);
    row = first;
    if (group <= 32) {
      row += lane / group;
      lane &= group - 1;
    }
  }
  __device__ __forceinline__ void next() {
    first += step;
    row += step;
  }
};

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

  // From `slots` in shared memory, which are `pitch` bytes apart.
  __device__ __forceinline__ Row(unsigned slots, unsigned pitch, int lane, int group, int width)
      : first_(lane * kV), step_(group * kV), width_(width) {
    static_assert(kV * sizeof(T) == 16 || kV == 1);
    if constexpr (kV > 1) {
#pragma unroll
      for (int a = 0; a < kA; ++a)
        load_shared(*reinterpret_cast<unsigned (*)[4]>(&raw_[a]), slots + a * pitch);
    }
  }

  // Adds `other`, rounds to T and stores the sum.
  __device__ __forceinline__ void add(const Row& other, T* sum) {
#pragma unroll
    for (int a = 0; a < kA; ++a) {
      if (index(a) >= width_) continue;
#pragma unroll
      for (int v = 0; v < kV; ++v)
        raw_[a].v[v] = convert<T>(to_compute(raw_[a].v[v]) + to_compute(other.raw_[a].v[v]));
      store_vec<T, kV>(sum + index(a), raw_[a]);
    }
  }

  // f(kV elements, index of the first, access) for every access of this thread.
  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
#pragma unroll
    for (int a = 0; a < kA; ++a) {
      if (index(a) >= width_) continue;
      float x[kV];
#pragma unroll
      for (int v = 0; v < kV; ++v) x[v] = to_compute(raw_[a].v[v]);
      f(x, index(a), a);
    }
  }

 private:
  __device__ __forceinline__ int index(int a) const { return first_ + a * step_; }

  Vec<T, kV> raw_[kA];
  int first_;
  int step_;
  int width_;
};

// In memory.
template <class T, int kV>
class Row<T, kV, 0> {
 public:
  __device__ __forceinline__ Row(const T* row, int lane, int group, int width)
      : row_(row), first_(lane * kV), step_(group * kV), width_(width) {}

  __device__ __forceinline__ void add(const Row& other, T* sum) {
    for (int i = first_; i < width_; i += step_) {
      float x[kV];
      float y[kV];
      load_floats<T, kV>(row_ + i, x);
      load_floats<T, kV>(other.row_ + i, y);
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
      f(x, i, 0);
    }
  }

 private:
  const T* row_;
  int first_;
  int step_;
  int width_;
};

struct RowArray {
  const void* data;
  long long stride;
};

// The rows of kArrays arrays, in the order of a block. Accesses of 16 bytes are fetched kStages
// rows ahead: a thread copies its own to shared memory and reads back no others, so that no barrier
// is needed. Others are read where they are used. For each row: wait(), get<i>() of each array,
// next().
template <class T, int kV, int kA, int kArrays>
class RowStream {
 public:
  static constexpr int kStages = kRowStages<kArrays>;
  static constexpr bool kAhead = kA > 0 && kV > 1 && kStages > 0;

  // `shared`: kStages * kArrays * kA * 16 bytes for each thread of the block.
  __device__ __forceinline__ RowStream(const RowArray (&arrays)[kArrays], const RowPlace& at,
                                       long long rows, int width, unsigned shared)
      : rows_(rows), width_(width), ahead_(at.row), slots_(shared + threadIdx.x * 16) {
#pragma unroll
    for (int i = 0; i < kArrays; ++i) arrays_[i] = arrays[i];
    if constexpr (kAhead) {
#pragma unroll 1
      for (int i = 0; i < kStages; ++i) fetch(at);
    }
  }

  __device__ __forceinline__ void wait() const {
    if constexpr (kAhead) cp_async_wait<kStages - 1>();
  }

  template <int kIndex>
  __device__ __forceinline__ Row<T, kV, kA> get(const RowPlace& at) const {
    const int width = at.row < rows_ ? width_ : 0;
    if constexpr (kAhead) {
      return Row<T, kV, kA>(slot(kIndex), pitch(), at.lane, at.group, width);
    } else {
      return Row<T, kV, kA>(row_of(kIndex, width > 0 ? at.row : 0), at.lane, at.group, width);
    }
  }

  __device__ __forceinline__ void next(const RowPlace& at) {
    if constexpr (kAhead) fetch(at);
  }

 private:
  static __device__ __forceinline__ unsigned pitch() { return blockDim.x * 16; }
  __device__ __forceinline__ unsigned slot(int array) const {
    return slots_ + (stage_ * kArrays + array) * kA * pitch();
  }
  __device__ __forceinline__ const T* row_of(int array, long long row) const {
    return static_cast<const T*>(arrays_[array].data) + row * arrays_[array].stride;
  }

  __device__ __forceinline__ void fetch(const RowPlace& at) {
    if (ahead_ < rows_) {
#pragma unroll
      for (int i = 0; i < kArrays; ++i) {
        const T* const from = row_of(i, ahead_);
#pragma unroll
        for (int a = 0; a < kA; ++a) {
          const int index = (at.lane + a * at.group) * kV;
          if (index < width_) cp_async<16>(slot(i) + a * pitch(), from + index);
        }
      }
    }
    cp_async_commit();
    ahead_ += at.step;
    stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
  }

  RowArray arrays_[kArrays];
  long long rows_;
  int width_;
  long long ahead_;
  unsigned slots_;
  int stage_ = 0;
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

// Over the threads of a row; all of them get the same bits. `shared` has 16 places, others than
// those of the call before. For all threads of the block.
template <class Op, class V>
__device__ __forceinline__ V combine(V x, int group, V* shared) {
  for (int o = (group < 32 ? group : 32) / 2; o > 0; o /= 2)
    x = Op::run(x, __shfl_xor_sync(0xffffffffu, x, o));
  if (group <= 32) return x;
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  x = shared[0];
  for (int i = 1; i < group / 32; ++i) x = Op::run(x, shared[i]);
  return x;
}

}  // namespace gpk
