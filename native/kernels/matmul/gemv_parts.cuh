// Common to the GEMV kernels: y[i, j] = epilogue(sum over l of x[i, l] * w(j, l)). Weights are read
// once, 16 bytes (a chunk) at a time and bypassing the L1; x is small and stays there.
// grid: x = blocks of j, y = split-K, z = batch. Accumulators are float32. K is summed in this
// order: in a thread, over the lanes of a warp, over the warps of a block (k_warps), over the
// splits. Which thread sums what depends only on n, k and the launch, never on m or on the
// template's kM: a row of y has the same bits whatever the other rows are, and however many.
// Splits are the blocks of a cluster (SM90+), reduced through distributed shared memory, or go to
// `partial` [split][batch][m][n] for finish.cuh.
#pragma once

#include "common/dependent_launch.cuh"
#include "common/dtype.cuh"
#include "common/stream_load.cuh"
#include "matmul/epilogue.cuh"

namespace gpk {

constexpr int kGemvThreads = 256;
constexpr int kGemvWarps = kGemvThreads / 32;

// --- loads --------------------------------------------------------------------------------------

// A range of K: [begin, end).
struct GemvRange {
  int begin, end;
};

__device__ __forceinline__ GemvRange gemv_range(const GemvArgs& args) {
  const long long begin = blockIdx.y * args.k_per_split;
  const long long end = begin + args.k_per_split;
  return {static_cast<int>(begin), static_cast<int>(end < args.k ? end : args.k)};
}

// A chunk in pieces of kAlign bytes, `valid` of its elements (a whole number of pieces).
template <class T, int kAlign>
__device__ __forceinline__ Chunk load_pieces(const T* p, int valid) {
  constexpr int kPer = kAlign / static_cast<int>(sizeof(T));
  Chunk c{};
  if constexpr (kAlign == 8) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (i * kPer < valid) {
        const uint2 piece = *reinterpret_cast<const uint2*>(p + i * kPer);
        c.v[2 * i] = piece.x;
        c.v[2 * i + 1] = piece.y;
      }
    }
  } else if constexpr (kAlign == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (i * kPer < valid) c.v[i] = *reinterpret_cast<const unsigned*>(p + i * kPer);
  } else {
    static_assert(sizeof(T) == 2 && kAlign == 2);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (i < valid) c.v[i / 2] |= static_cast<unsigned>(p[i].bits) << (i % 2 * 16);
  }
  return c;
}

// Converts a chunk to floats. A packed format (W8, W4) would be another specialisation.
template <class T>
struct GemvWeight;

template <>
struct GemvWeight<float> {
  static constexpr int kPer = 4;
  static __device__ __forceinline__ void unpack(const Chunk& c, float (&f)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) f[i] = __uint_as_float(c.v[i]);
  }
};

template <>
struct GemvWeight<bfloat16> {
  static constexpr int kPer = 8;
  static __device__ __forceinline__ void unpack(const Chunk& c, float (&f)[8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      f[2 * i] = __uint_as_float(c.v[i] << 16);
      f[2 * i + 1] = __uint_as_float(c.v[i] & 0xffff0000u);
    }
  }
};

template <>
struct GemvWeight<float16> {
  static constexpr int kPer = 8;
  static __device__ __forceinline__ void unpack(const Chunk& c, float (&f)[8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      f[2 * i] = to_compute(float16{static_cast<unsigned short>(c.v[i])});
      f[2 * i + 1] = to_compute(float16{static_cast<unsigned short>(c.v[i] >> 16)});
    }
  }
};

// Ordering against the preceding kernel in the stream: kOrder is a GemvOrder.
template <int kOrder>
__device__ __forceinline__ void gemv_begin() {
  if constexpr (kOrder == kOrderWait) wait_for_predecessor();
}

// Between the first loads of w and the first of x.
template <int kOrder>
__device__ __forceinline__ void gemv_before_input() {
  if constexpr (kOrder != kOrderPlain) release_successor();
  if constexpr (kOrder == kOrderPrefetch) wait_for_predecessor();
}

// --- epilogue and store -------------------------------------------------------------------------

template <class C>
__device__ __forceinline__ float gemv_bias(const EpilogueArgs& args, long long j) {
  return to_compute(static_cast<const C*>(args.bias)[j * args.bias_step]);
}
template <class C>
__device__ __forceinline__ float gemv_residual(const EpilogueArgs& args, long long i, long long j,
                                               long long batch) {
  return to_compute(static_cast<const C*>(
      args.residual)[batch * args.residual_batch + i * args.residual_m + j * args.residual_n]);
}

// Flags are not template parameters here: a thread runs this only once or twice. bias() and
// residual() are asked where they are needed.
template <class Bias, class Residual>
__device__ __forceinline__ float gemv_epilogue(const EpilogueArgs& args, unsigned flags, float v,
                                               long long i, long long j, const Bias& bias,
                                               const Residual& residual) {
  if ((flags & 0xffffu) == 0) return v;
  if (flags & kEpilogueScales) {
    v *= combined_scale(args, i, j);
  } else if (flags & kEpilogueAlpha) {
    v *= args.alpha;
  }
  if (flags & kEpilogueBias) v += bias();
  const unsigned activation = (flags & 0xffffu) >> kEpilogueActivationShift;
  if (activation == kActivationRelu) v = activate<kActivationRelu>(v);
  if (activation == kActivationGelu) v = activate<kActivationGelu>(v);
  if (activation == kActivationSilu) v = activate<kActivationSilu>(v);
  if (activation == kActivationGeluErf) v = activate<kActivationGeluErf>(v);
  if (flags & kEpilogueResidual) v += args.beta * residual();
  return v;
}

template <class C>
__device__ __forceinline__ void gemv_store_as(const GemvArgs& args, const EpilogueArgs& epilogue,
                                              float sum, long long i, long long j,
                                              long long batch) {
  const auto flags = static_cast<unsigned>(args.flags);
  const bool transposed = (flags & kGemvTransposed) != 0;
  const long long row = transposed ? j : i;
  const long long column = transposed ? i : j;
  const float v = gemv_epilogue(
      epilogue, flags, sum, row, column, [&] { return gemv_bias<C>(epilogue, column); },
      [&] { return gemv_residual<C>(epilogue, row, column, batch); });
  static_cast<C*>(args.y)[batch * args.y_batch + i * args.y_m + j * args.y_n] = convert<C>(v);
}

template <class T>
__device__ __forceinline__ void gemv_store(const GemvArgs& args, const EpilogueArgs& epilogue,
                                           float sum, long long i, long long j, long long batch) {
  if (static_cast<unsigned>(args.flags) & kGemvFloatOut) {
    gemv_store_as<float>(args, epilogue, sum, i, j, batch);
  } else {
    gemv_store_as<T>(args, epilogue, sum, i, j, batch);
  }
}

// To y through the epilogue, or to `partial`.
template <class T>
__device__ __forceinline__ void gemv_emit(const GemvArgs& args, const EpilogueArgs& epilogue,
                                          float sum, int i, int j) {
  const long long batch = blockIdx.z;
  if (i >= args.m || j >= args.n) return;
  if (args.partial != nullptr) {
    const long long part = static_cast<long long>(blockIdx.y) * gridDim.z + batch;
    args.partial[(part * args.m + i) * args.n + j] = sum;
  } else {
    gemv_store<T>(args, epilogue, sum, i, j, batch);
  }
}

struct Cluster {
  unsigned rank, size;
};

__device__ __forceinline__ Cluster gemv_cluster() {
  Cluster c{0, 1};
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(c.rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(c.size));
#endif
  return c;
}

__device__ __forceinline__ void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
#endif
}

__device__ __forceinline__ float load_from_rank(const float* p, unsigned rank) {
  float v = 0.0f;
#if __CUDA_ARCH__ >= 900
  const auto local = static_cast<unsigned>(__cvta_generic_to_shared(p));
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %1, %2;\n"
      "ld.shared::cluster.f32 %0, [remote];\n}"
      : "=f"(v)
      : "r"(local), "r"(rank)
      : "memory");
#endif
  return v;
}

// What an output is made of: one sum, or with kGated those of gate and up.
template <bool kGated>
struct GemvSum {
  float value, up;

  // From `at`, and `apart` floats behind it, as `load` reads them.
  template <class Load>
  __device__ __forceinline__ void add(const float* at, int apart, const Load& load) {
    value += load(at);
    if constexpr (kGated) up += load(at + apart);
  }
  __device__ __forceinline__ float result() const {
    if constexpr (kGated) return value * (1.0f / (1.0f + expf(-value))) * up;
    return value;
  }
};

// Sums of all warps of the block, in `sums`: [warp][kM][kPitch], of which kRows are used. Warp w
// has K slice w % k_warps and rows from (w / k_warps) * kRows on; `first_i` and `first_j` are the
// block's. kGated: the second half of the rows are those of up. All threads must call this.
template <class T, int kM, int kRows, int kPitch, bool kGated = false>
__device__ __forceinline__ void gemv_finish_block(const GemvArgs& args,
                                                  const EpilogueArgs& epilogue, float* sums,
                                                  int k_warps, int first_i, int first_j) {
  constexpr int kTile = kM * kPitch;
  constexpr int kColumns = kGated ? kRows / 2 : kRows;
  const int num_columns = kGemvWarps / k_warps * kColumns;
  const int num_outputs = num_columns * kM;
  const Cluster cluster = gemv_cluster();
  const auto place = [&](int i, int j) {
    return sums + j / kColumns * k_warps * kTile + i * kPitch + j % kColumns;
  };
  __syncthreads();
  for (int o = static_cast<int>(threadIdx.x); o < num_outputs; o += kGemvThreads) {
    const int i = o / num_columns;
    const int j = o - i * num_columns;
    float* const at = place(i, j);
    GemvSum<kGated> sum{at[0], kGated ? at[kColumns] : 0.0f};
    for (int part = 1; part < k_warps; ++part)
      sum.add(at + part * kTile, kColumns, [](const float* p) { return *p; });
    if (cluster.size == 1) {
      gemv_emit<T>(args, epilogue, sum.result(), first_i + i, first_j + j);
    } else {
      at[0] = sum.value;
      if constexpr (kGated) at[kColumns] = sum.up;
    }
  }
  if (cluster.size == 1) return;
  cluster_barrier();
  for (int o = static_cast<int>(cluster.rank * kGemvThreads + threadIdx.x); o < num_outputs;
       o += static_cast<int>(cluster.size * kGemvThreads)) {
    const int i = o / num_columns;
    const int j = o - i * num_columns;
    const float* const at = place(i, j);
    GemvSum<kGated> sum{load_from_rank(at, 0), kGated ? load_from_rank(at + kColumns, 0) : 0.0f};
    for (unsigned rank = 1; rank < cluster.size; ++rank)
      sum.add(at, kColumns, [&](const float* p) { return load_from_rank(p, rank); });
    gemv_emit<T>(args, epilogue, sum.result(), first_i + i, first_j + j);
  }
  cluster_barrier();  // no block exits while its sums are being read
}

}  // namespace gpk
