// C = epilogue(x w^T) for packed w (args/quantize.h) and any number of rows of x, float16 or
// bfloat16, by mma.sync (SM80+). Tiles of x and of packed w come by cp.async into a ring of
// kStages; while the tensor cores multiply tile t, the block's threads dequantise tile t + 1 of w,
// eight values at a time, into the other of two dense tiles. Weights are rounded to T as
// quantize.cuh's dequantize rounds them; with kScaled false (a scale per row) they are exact and
// the epilogue has the scales. x K-major, rows of x and w on 16 bytes. Grid, stores and order of
// summation as in gemm_mma.cuh. Shared memory (dynamic): the ring, then the dense tiles.
#pragma once

#include "matmul/gemm_mma.cuh"
#include "matmul/packed_format.cuh"

namespace gpk {

template <int kCode, class T, bool kScaled, int kScale, int kTileM, int kTileN, int kWarpM,
          int kWarpN, int kStages>
struct GemmPacked {
  static_assert(kStages >= 3, "tile t + 1 has arrived when tile t is multiplied");
  static constexpr int kTileK = 64;
  using Gemm =
      GemmMma<T, T, T, kTileM, kTileN, kTileK, kWarpM, kWarpN, kStages, true, true, 16, 16>;
  static constexpr int kThreads = Gemm::kThreads;
  static constexpr int kBlocksM = Gemm::kBlocksM;
  static constexpr int kBlocksN = Gemm::kBlocksN;
  static constexpr int kPerByte = kIsNibble<kCode> ? 2 : 1;
  using LayoutX = typename Gemm::LayoutA;
  using LayoutW = TileLayout<unsigned char, kTileN, kTileK / kPerByte, true>;
  using Dense = typename Gemm::LayoutB;
  using CopyX = typename Gemm::CopyA;
  using CopyW = TileCopy<unsigned char, LayoutW, 16, kThreads>;
  static constexpr int kStageBytes = LayoutX::kBytes + LayoutW::kBytes;
  static constexpr int kRingBytes = kStages * kStageBytes;

  // Eight values of a row are a piece: a chunk of the dense tile.
  static constexpr int kPieces = kTileN * (kTileK / 8) / kThreads;  // of a thread
  static constexpr int kRowStep = kThreads / (kTileK / 8);
  static_assert(kPieces >= 1 && kPieces <= Gemm::kSteps, "a piece or none after each step");
  static constexpr bool kZeros = kHasZeroPoint<kCode>;

  // Loads tile after tile into the ring.
  struct Feed {
    CopyX x;
    CopyW w;
    int rows, cols;  // of x and w that exist, from the tile on
    int k_left;

    __device__ __forceinline__ void load(const MatmulArgs& args, const PackedTileArgs& packed,
                                         unsigned stage) {
      if (k_left > 0) {
        x.begin(stage, rows, k_left, args.a_m, kTileK, args.a);
        w.begin(stage + LayoutX::kBytes, cols, (k_left + kPerByte - 1) / kPerByte, packed.pitch,
                kTileK / kPerByte, packed.values);
      }
      cp_async_commit();
      k_left -= kTileK;
    }
  };

  // Scales and zero points of this thread's pieces of one tile.
  struct Scales {
    float scale[kScaled ? kPieces : 1];
    float zero[kZeros ? kPieces : 1];

    // `l`: first k of the thread's pieces.
    __device__ __forceinline__ void load(const PackedTileArgs& packed, long long first_n,
                                         long long l, float whole) {
      if constexpr (kScaled || kZeros) {
        const long long group = min(l >> packed.group_shift, packed.scale_row - 1);
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
          const long long row = min(first_n + row_of(i), packed.n - 1);
          const long long at = (row >> packed.scale_shift) * packed.scale_row + group;
          if constexpr (kScaled) scale[i] = packed_scale<kScale>(packed.scales, at) * whole;
          if constexpr (kZeros) zero[i] = static_cast<float>(packed.zeros[at]);
        }
      }
    }
  };

  static __device__ __forceinline__ int row_of(int piece) {
    return static_cast<int>(threadIdx.x) / (kTileK / 8) + piece * kRowStep;
  }
  static __device__ __forceinline__ int chunk() {
    return static_cast<int>(threadIdx.x) % (kTileK / 8);
  }

  // Eight values in order, two to a word, exact in T.
  static __device__ __forceinline__ void unpack(unsigned address, unsigned context,
                                                unsigned (&y)[4]) {
    using Format = PackedFormat<kCode, T>;
    if constexpr (kIsNibble<kCode>) {
      unsigned word;
      load_shared(word, address);
      unsigned pairs[4];
      Format::unpack(word, context, pairs);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        y[i] = __byte_perm(pairs[2 * i], pairs[2 * i + 1], 0x5410);
        y[i + 2] = __byte_perm(pairs[2 * i], pairs[2 * i + 1], 0x7632);
      }
    } else {
      unsigned words[2];
      load_shared(words[0], words[1], address);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        unsigned pairs[2];
        Format::unpack(words[i], context, pairs);
        y[2 * i] = __byte_perm(pairs[0], pairs[1], 0x5410);
        y[2 * i + 1] = __byte_perm(pairs[0], pairs[1], 0x7632);
      }
    }
  }

  static __device__ __forceinline__ unsigned scaled_pair(float low, float high, float scale) {
    return convert<T>(low * scale).bits | static_cast<unsigned>(convert<T>(high * scale).bits)
                                              << 16;
  }
  static __device__ __forceinline__ float low_of(unsigned pair) {
    return to_compute(T{static_cast<unsigned short>(pair)});
  }

  // The quantiles in float32, as dequantize multiplies them: lane i % 16 of `table` has number i.
  static __device__ __forceinline__ void unpack_nf4(unsigned address, float table, float scale,
                                                    unsigned (&y)[4]) {
    unsigned word;
    load_shared(word, address);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float low = __shfl_sync(0xffffffffu, table, static_cast<int>(word >> (8 * i) & 15u));
      const float high =
          __shfl_sync(0xffffffffu, table, static_cast<int>(word >> (8 * i + 4) & 15u));
      y[i] = scaled_pair(low, high, scale);
    }
  }

  // Piece `i` of the packed tile at `from` to the dense tile.
  static __device__ __forceinline__ void dequantise(unsigned from, unsigned char* dense,
                                                    const Scales& scales, float table, int i) {
    const int row = row_of(i);
    const unsigned address = from + LayoutW::offset(row, chunk() * 8 / kPerByte);
    unsigned y[4];
    if constexpr (kCode == kCodeNf4) {
      unpack_nf4(address, table, kScaled ? scales.scale[kScaled ? i : 0] : 1.0f, y);
    } else {
      const int lane = static_cast<int>(threadIdx.x) & 31;
      unpack(address,
             PackedFormat<kCode, T>::context(kZeros ? scales.zero[kZeros ? i : 0] : 0.0f, lane), y);
      if constexpr (kScaled) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          y[j] = scaled_pair(low_of(y[j]), low_of(y[j] >> 16), scales.scale[i]);
      }
    }
    store_vec<unsigned, 4>(reinterpret_cast<unsigned*>(dense + Dense::offset(row, chunk() * 16)),
                           {y[0], y[1], y[2], y[3]});
  }

  static __device__ __forceinline__ void sum(const MatmulArgs& args, const PackedTileArgs& packed,
                                             Feed& feed, long long first_n, long long first_k,
                                             unsigned char* memory, int warp_m, int warp_n,
                                             float (&acc)[kBlocksM][kBlocksN * 2][4]) {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const typename Gemm::FragmentsA from_x(warp_m, lane);
    const typename Gemm::FragmentsB from_w(warp_n, lane);
    const unsigned shared = shared_address(memory);
    const float table = kCode == kCodeNf4 ? nf4_value(static_cast<unsigned>(lane) % 16) : 0.0f;
    const float whole = packed.tensor_scale != nullptr ? *packed.tensor_scale : 1.0f;
    const int num_tiles = (feed.k_left + kTileK - 1) / kTileK;
    long long l = first_k + chunk() * 8;
    Scales ahead;  // of the tile that is dequantised next
    ahead.load(packed, first_n, l, whole);
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) feed.load(args, packed, shared + s * kStageBytes);
    cp_async_wait<kStages - 2>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
      dequantise(shared + LayoutX::kBytes, memory + kRingBytes, ahead, table, i);
    ahead.load(packed, first_n, l += kTileK, whole);
    unsigned read = shared;
    unsigned write = shared + (kStages - 1) * kStageBytes;
    const unsigned last = write;
    for (int tile = 0; tile < num_tiles; ++tile) {
      cp_async_wait<kStages - 3>();
      __syncthreads();  // tile + 1 has arrived, this tile is dense, the others are free
      feed.load(args, packed, write);
      const unsigned next = read == last ? shared : read + kStageBytes;
      // The last tile has no next one: it is unpacked again, to where nobody reads.
      const unsigned source = tile + 1 < num_tiles ? next : read;
      const int side = tile % 2;
      unsigned char* const other = memory + kRingBytes + (1 - side) * Dense::kBytes;
      const unsigned dense = shared + kRingBytes + static_cast<unsigned>(side) * Dense::kBytes;
      const Scales scales = ahead;
      ahead.load(packed, first_n, l += kTileK, whole);
#pragma unroll
      for (int step = 0; step < Gemm::kSteps; ++step) {
        typename Gemm::Step fragments;
        from_x.load(fragments.a, read, step);
        from_w.load(fragments.b, dense, step);
        if (step < kPieces) dequantise(source + LayoutX::kBytes, other, scales, table, step);
        fragments.multiply(acc);
      }
      write = read;
      read = next;
    }
    cp_async_wait<0>();
    __syncthreads();
  }
};

template <int kCode, class T, bool kScaled, int kScale, int kTileM, int kTileN, int kWarpM,
          int kWarpN, int kStages>
__global__ void __launch_bounds__(kTileM / kWarpM * (kTileN / kWarpN) * 32, 1)
    gemm_packed_kernel(const __grid_constant__ MatmulArgs args,
                       const __grid_constant__ EpilogueArgs epilogue,
                       const __grid_constant__ TileGrid grid,
                       const __grid_constant__ PackedTileArgs packed) {
  using Packed = GemmPacked<kCode, T, kScaled, kScale, kTileM, kTileN, kWarpM, kWarpN, kStages>;
  using Gemm = typename Packed::Gemm;
  unsigned char* const memory = dynamic_shared();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_m = warp % Gemm::kWarpsM * kWarpM;
  const int warp_n = warp / Gemm::kWarpsM * kWarpN;

  float acc[Gemm::kBlocksM][Gemm::kBlocksN * 2][4] = {};
  {
    const TilePlace place = tile_place(grid);
    const long long first_m = static_cast<long long>(place.m) * kTileM;
    const long long first_n = static_cast<long long>(place.n) * kTileN;
    const long long first_k = blockIdx.y * args.k_per_split;
    typename Packed::Feed feed{
        typename Packed::CopyX(static_cast<const T*>(args.a) + first_m * args.a_m + first_k,
                               args.a_m),
        typename Packed::CopyW(packed.values + first_n * packed.pitch + first_k / Packed::kPerByte,
                               packed.pitch),
        static_cast<int>(min(args.m - first_m, static_cast<long long>(kTileM))),
        static_cast<int>(min(args.n - first_n, static_cast<long long>(kTileN))),
        static_cast<int>(min(args.k - first_k, args.k_per_split))};
    Packed::sum(args, packed, feed, first_n, first_k, memory, warp_m, warp_n, acc);
  }
  store_tile<Gemm, T, kTileM, kTileN>(args, epilogue, grid, memory, warp, warp_m, warp_n, acc);
}

}  // namespace gpk
