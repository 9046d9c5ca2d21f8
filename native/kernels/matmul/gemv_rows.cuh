// Rows of x as gemv_mma reads them: from memory, or from shared memory, where they may be
// normalised first.
#pragma once

#include "common/barrier.cuh"
#include "common/cp_async.cuh"
#include "common/shared.cuh"
#include "matmul/gemv_parts.cuh"

namespace gpk {

// Rows of x as they are in memory.
template <class T>
struct GemvRows {
  const T* x;
  long long pitch;

  __device__ __forceinline__ explicit GemvRows(const GemvArgs& args)
      : x(static_cast<const T*>(args.x) + blockIdx.z * args.x_batch), pitch(args.x_m) {}
  // 8 elements of a row; zeros where `valid` is false.
  __device__ __forceinline__ Chunk load(int row, int at, bool valid) const {
    return load_shared_input(x + row * pitch + at, valid);
  }
};

struct SyncBlock {
  static __device__ __forceinline__ void run() { __syncthreads(); }
};

// x in shared memory: m * (k + kPad) elements. Rows are padded, so that the two rows of a quarter
// warp are in different banks. For kGemvThreads threads, from thread 0 on, which Sync synchronises.
template <class T, int kM, class Sync = SyncBlock>
class GemvSharedRows {
 public:
  static constexpr int kPad = 32;

  __device__ __forceinline__ GemvSharedRows(const GemvArgs& args, unsigned base)
      : base_(base), pitch_(static_cast<int>(args.k) + kPad) {}

  // A thread has read what it copied itself; Sync for the others.
  __device__ __forceinline__ void copy(const GemvArgs& args) const {
    for (int i = 0; i < static_cast<int>(args.m); ++i)
      for (int at = static_cast<int>(threadIdx.x) * 8; at < args.k; at += 8 * kGemvThreads)
        cp_async<16>(address(i, at), static_cast<const T*>(args.x) + i * args.x_m + at);
    cp_async_commit();
    cp_async_wait<0>();
  }

  // After copy(): rmsnorm (kCentred: layernorm), rounded. Sums are in the order of norm_rows with
  // 256 threads to a row: over a thread's chunks, the lanes, the warps.
  template <bool kCentred>
  __device__ __forceinline__ void normalise(const GemvArgs& args) const {
    __shared__ float sums[1 + kCentred][kM][kGemvWarps];
    const int m = static_cast<int>(args.m);
    const auto k = static_cast<int>(args.k);
    if constexpr (kCentred) {
      for (int i = 0; i < m; ++i)
        add_up(args, i, sums[1][i], [](float e, float sum) { return sum + e; });
      Sync::run();
    }
    const auto mean = [&](int i) {
      return kCentred ? total(sums[kCentred][i]) / static_cast<float>(k) : 0.0f;
    };
    for (int i = 0; i < m; ++i)
      add_up(args, i, sums[0][i],
             [mean = mean(i)](float e, float sum) { return fmaf(e - mean, e - mean, sum); });
    Sync::run();
    for (int at = static_cast<int>(threadIdx.x) * 8; at < k; at += 8 * kGemvThreads) {
      float w[8];
      float b[8] = {};
      GemvWeight<T>::unpack(load_shared_input(static_cast<const T*>(args.norm_weight) + at, true),
                            w);
      const bool biased = kCentred && args.norm_bias != nullptr;
      if (biased)
        GemvWeight<T>::unpack(load_shared_input(static_cast<const T*>(args.norm_bias) + at, true),
                              b);
      for (int i = 0; i < m; ++i) {
        const float scale = rsqrtf(total(sums[0][i]) / static_cast<float>(k) + args.norm_eps);
        float e[8];
        GemvWeight<T>::unpack(load(i, at), e);
        Chunk y;
        T* const rounded = reinterpret_cast<T*>(y.v);
#pragma unroll
        for (int v = 0; v < 8; ++v) {  // every step rounds, as in norm.cuh
          const float x = kCentred ? __fsub_rn(e[v], mean(i)) : e[v];
          const float weighted = __fmul_rn(__fmul_rn(x, scale), __fadd_rn(args.norm_offset, w[v]));
          rounded[v] = convert<T>(biased ? __fadd_rn(weighted, b[v]) : weighted);
        }
        store_shared_quad(address(i, at), y.v);
      }
    }
  }

  __device__ __forceinline__ Chunk load(int row, int at, bool valid = true) const {
    Chunk c{};
    if (valid) load_shared_quad(address(row, at), c.v);
    return c;
  }

 private:
  // f over the elements of a row; sums of warps.
  template <class F>
  __device__ __forceinline__ void add_up(const GemvArgs& args, int row, float (&sums)[kGemvWarps],
                                         const F& f) const {
    const int thread = static_cast<int>(threadIdx.x);
    float sum = 0.0f;
    for (int at = thread * 8; at < args.k; at += 8 * kGemvThreads) {
      float e[8];
      GemvWeight<T>::unpack(load(row, at), e);
#pragma unroll
      for (int v = 0; v < 8; ++v) sum = f(e[v], sum);
    }
#pragma unroll
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (thread % 32 == 0) sums[thread / 32] = sum;
  }
  static __device__ __forceinline__ float total(const float (&sums)[kGemvWarps]) {
    float sum = sums[0];
#pragma unroll
    for (int warp = 1; warp < kGemvWarps; ++warp) sum += sums[warp];
    return sum;
  }

  __device__ __forceinline__ unsigned address(int row, int at) const {
    return base_ + static_cast<unsigned>(row * pitch_ + at) * 2;
  }

  unsigned base_;
  int pitch_;
};

// x in the block's dynamic shared memory, normalised, for kernels with kNorm.
template <class T, int kM>
class GemvNormedRows : public GemvSharedRows<T, kM> {
 public:
  __device__ __forceinline__ explicit GemvNormedRows(const GemvArgs& args)
      : GemvSharedRows<T, kM>(args, shared_address(dynamic_shared())) {
    this->copy(args);
    this->template normalise<false>(args);
    SyncBlock::run();
  }
};

template <class T, int kM, bool kNorm>
struct GemvInput {
  using Type = GemvRows<T>;
};
template <class T, int kM>
struct GemvInput<T, kM, true> {
  using Type = GemvNormedRows<T, kM>;
};

}  // namespace gpk
