// A linear layer of the chain: gemv_mma of up to kChainRows rows, in its order of summation, with
// weights from the ring and x from shared memory.
#pragma once

#include "chain/weight_ring.cuh"
#include "matmul/gemv_mma.cuh"

namespace gpk {

static_assert(kGemvThreads == 32 * kChainWarps);

// The warps that compute, by a barrier of their own.
inline constexpr int kChainBarrier = 2;
struct SyncChain {
  static __device__ __forceinline__ void run() { named_sync(kChainBarrier, 32 * kChainWarps); }
};

template <class T>
using ChainInput = GemvSharedRows<T, kChainRows, SyncChain>;

template <class T, bool kGated>
class ChainLinear {
 public:
  static constexpr int kHalves = kGated ? 2 : 1;
  static constexpr int kHalfSums = kChainWarps * kChainRows * kChainSumPitch;

  __device__ __forceinline__ ChainLinear(const ChainPhase& phase, const ChainInput<T>& x,
                                         float* sums)
      : args_(*reinterpret_cast<const GemvArgs*>(phase.work)),
        epilogue_(*reinterpret_cast<const EpilogueArgs*>(phase.work + sizeof(GemvArgs))),
        x_(x),
        sums_(sums),
        tiles_(args_),
        m_(static_cast<int>(args_.m)) {}

  __device__ __forceinline__ void run(const ChainPhase& phase, WeightRing& ring) const {
    for (int unit = first_unit(phase); unit < phase.num_units; unit += static_cast<int>(gridDim.x))
      tile(unit * tiles_.rows, ring);
  }

 private:
  // Outputs of a thread: a tile has up to 128 rows.
  static constexpr int kOutputs = 128 * kChainRows / kGemvThreads;

  __device__ __forceinline__ void tile(int first_row, WeightRing& ring) const {
    GemvSum<kGated> totals[kOutputs];
    Addends addends[kOutputs];  // loaded before they are needed
    each_output([&](int o, int i, int j) {
      if (first_row + j < tiles_.n) addends[o] = load_addends(i, first_row + j);
    });
    for (int begin = 0; begin < tiles_.k; begin += tiles_.k_per_split) {
      float acc[kHalves][4] = {};
      const int end = tiles_.end_of(begin);
      for (int at = begin; at < end; at += tiles_.step) {
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
          ring.wait_full();
          multiply(acc[half], ring.stage(), at, end);
          ring.release();
          ring.advance();
        }
      }
      store_sums(acc);
      SyncChain::run();
      add_sums(totals, begin == 0);
      SyncChain::run();  // they have been read
    }
    each_output([&](int o, int i, int j) {
      if (first_row + j < tiles_.n) store(totals[o].result(), addends[o], i, first_row + j);
    });
  }

  struct Addends {
    float bias = 0.0f, residual = 0.0f;
  };

  __device__ __forceinline__ Addends load_addends(int i, int j) const {
    const auto flags = static_cast<unsigned>(args_.flags);
    const bool wide = (flags & kGemvFloatOut) != 0;
    Addends a;
    if (flags & kEpilogueBias)
      a.bias = wide ? gemv_bias<float>(epilogue_, j) : gemv_bias<T>(epilogue_, j);
    if (flags & kEpilogueResidual)
      a.residual =
          wide ? gemv_residual<float>(epilogue_, i, j, 0) : gemv_residual<T>(epilogue_, i, j, 0);
    return a;
  }

  __device__ __forceinline__ void store(float sum, const Addends& a, int i, int j) const {
    const auto flags = static_cast<unsigned>(args_.flags);
    const float v = gemv_epilogue(
        epilogue_, flags, sum, i, j, [&] { return a.bias; }, [&] { return a.residual; });
    const long long at = i * args_.y_m + j * args_.y_n;
    if (flags & kGemvFloatOut) {
      static_cast<float*>(args_.y)[at] = v;
    } else {
      static_cast<T*>(args_.y)[at] = convert<T>(v);
    }
  }

  // A warp's part of a stage: 16 rows and 128 elements of K from `at` on.
  __device__ __forceinline__ void multiply(float (&acc)[4], unsigned stage, int at, int end) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    const int t = static_cast<int>(threadIdx.x) % 4;
    const int slice = warp % tiles_.k_warps;
    const int row = warp / tiles_.k_warps * 16 + g;
    const unsigned from = stage + row * tiles_.pitch + slice * 256 + t * 16;
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      const int here = at + slice * 128 + u * 32 + t * 8;
      const bool valid = here < end;
      Chunk a[2] = {};
      if (valid) {
        load_shared_quad(from + u * 64, a[0].v);
        load_shared_quad(from + 8 * tiles_.pitch + u * 64, a[1].v);
      }
      const Chunk b = x_.load(g, here, g < m_ && valid);
      gemv_mma<T>(acc, a[0].v[0], a[1].v[0], a[0].v[1], a[1].v[1], b.v[0], b.v[1]);
      gemv_mma<T>(acc, a[0].v[2], a[1].v[2], a[0].v[3], a[1].v[3], b.v[2], b.v[3]);
    }
  }

  __device__ __forceinline__ void store_sums(const float (&acc)[kHalves][4]) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int half = 0; half < kHalves; ++half)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (2 * t + e % 2 < m_)
          sums_[half * kHalfSums + (warp * kChainRows + 2 * t + e % 2) * kChainSumPitch +
                e / 2 * 8 + g] = acc[half][e];
  }

  __device__ __forceinline__ void add_sums(GemvSum<kGated> (&totals)[kOutputs], bool first) const {
    constexpr int kTile = kChainRows * kChainSumPitch;
    const auto load = [](const float* p) { return *p; };
    each_output([&](int o, int i, int j) {
      const float* const at = sums_ + j / 16 * tiles_.k_warps * kTile + i * kChainSumPitch + j % 16;
      GemvSum<kGated> sum{at[0], kGated ? at[kHalfSums] : 0.0f};
      for (int part = 1; part < tiles_.k_warps; ++part) sum.add(at + part * kTile, kHalfSums, load);
      if (first) {
        totals[o] = sum;
      } else {
        totals[o].value += sum.value;
        if constexpr (kGated) totals[o].up += sum.up;
      }
    });
  }

  // f(o, i, j): the thread's output o is row i, column j of the tile of y.
  template <class F>
  __device__ __forceinline__ void each_output(const F& f) const {
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      const int output = static_cast<int>(threadIdx.x) + o * kGemvThreads;
      const int i = output / tiles_.rows;
      if (i < m_) f(o, i, output - i * tiles_.rows);
    }
  }

  const GemvArgs& args_;
  const EpilogueArgs& epilogue_;
  const ChainInput<T>& x_;
  float* sums_;
  ChainTiles tiles_;
  int m_;
};

}  // namespace gpk
