// Convolution as an implicit GEMM on tensor cores: out [rows, positions] = sum over (channels,
// taps) of packed weights (conv_pack) and gathered inputs, then the epilogue. A block computes
// kTileM rows x kTileN positions, kTileN / kTileW lines of kTileW of them. Grid: x tiles of
// positions and batches, y tiles of rows and groups. Shared memory: a ring of kStages weight tiles
// (cp.async), and two windows of the input with a line of 128 bytes of channels for each position
// (transposed through registers), used by all taps: a tap is an offset in lines, whatever stride
// and dilation. Chunks of lines are swizzled by the line. Later the sums, for coalesced stores.
// float32: TF32, or (kPrecise) three products of TF32 halves, each step summed in float32.
#pragma once

#include "common/cp_async.cuh"
#include "common/mma.cuh"
#include "common/vec.cuh"
#include "conv/epilogue.cuh"

namespace gpk {

// The line of a window's element: residues of the stride apart, so that a tap of neighbouring
// outputs is in neighbouring lines.
__device__ __forceinline__ int conv_line(const ConvTiles& tiles, int h, int w) {
  if (tiles.stride_w == 1) return h * tiles.pitch + w;
  return h * tiles.pitch + w % tiles.stride_w * tiles.phase_pitch + w / tiles.stride_w;
}

__device__ __forceinline__ unsigned conv_offset(int line, int chunk) {
  return static_cast<unsigned>(line * kConvLineBytes + ((chunk ^ (line & 7)) << 4));
}

template <class T, bool kPrecise, int kTileM, int kTileN, int kTileW, int kWarpM, int kWarpN,
          int kStages>
struct ConvMma {
  static constexpr int kWarpsM = kTileM / kWarpM;
  static constexpr int kThreads = kWarpsM * (kTileN / kWarpN) * 32;
  static constexpr int kVec = 16 / static_cast<int>(sizeof(T));
  static constexpr int kChunks = kConvLineBytes / 16;
  static constexpr int kLine = kChunks * kVec;  // channels
  static constexpr int kSteps = kConvLineBytes / 32;
  static constexpr int kBlocksM = kWarpM / 16;
  static constexpr int kBlocksN = kWarpN / 16;
  static constexpr int kStageBytes = kTileM * kConvLineBytes;
  static constexpr int kPerWarp = kChunks * 32 / kThreads;  // chunks of a line
  static constexpr int kHold = 2;               // chunks of a window that a thread loads at a time
  static constexpr int kPitchOut = kTileN + 8;  // no bank conflicts
  static_assert(kTileM * kChunks % kThreads == 0 && kPerWarp > 0, "every thread copies as much");
  using Sums = float[kBlocksM][kBlocksN * 2][4];

  // Reads a window of the input, line block by line block.
  struct Feed {
    const T* x;            // of the batch and group
    int first_h, first_w;  // of the window
    int positions;         // of the window

    struct Chunk {
      int line, index, h, w;
      bool inside;
    };
    // A warp has whole chunks of every position.
    __device__ __forceinline__ Chunk chunk(const ConvTiles& tiles, int item) const {
      const int lane = static_cast<int>(threadIdx.x) & 31;
      const int at = item / kPerWarp * 32 + lane;
      const int h = kTileW == kTileN ? 0 : at / tiles.window_w;
      const int w = at - h * tiles.window_w;
      return {conv_line(tiles, h, w),
              static_cast<int>(threadIdx.x) / 32 * kPerWarp + item % kPerWarp, first_h + h,
              first_w + w, at < positions};
    }

    // Items first, first + 1, ... of the thread, of the channels from `channel` on.
    __device__ __forceinline__ void fetch(const ConvArgs& args, const ConvTiles& tiles, int first,
                                          int channel, unsigned (&held)[kHold][kVec]) const {
#pragma unroll
      for (int i = 0; i < kHold; ++i) {
        const Chunk at = chunk(tiles, first + i);
        const bool inside =
            at.inside && at.h >= 0 && at.h < args.in_h && at.w >= 0 && at.w < args.in_w;
        const int c = channel + at.index * kVec;
        const T* const from = x + c * args.x_channel + at.h * args.x_row + at.w;
#pragma unroll
        for (int e = 0; e < kVec; ++e)
          held[i][e] = inside && c + e < args.in_channels ? bits(from + e * args.x_channel) : 0u;
      }
    }
    __device__ __forceinline__ void put(const ConvTiles& tiles, int first, unsigned char* window,
                                        const unsigned (&held)[kHold][kVec]) const {
#pragma unroll
      for (int i = 0; i < kHold; ++i) {
        const Chunk at = chunk(tiles, first + i);
        if (!at.inside) continue;
        Vec<unsigned, 4> words;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if constexpr (sizeof(T) == 4) {
            words.v[j] = held[i][j];
          } else {
            words.v[j] = held[i][2 * j] | held[i][2 * j + 1] << 16;
          }
        }
        store_vec<unsigned, 4>(reinterpret_cast<unsigned*>(window + conv_offset(at.line, at.index)),
                               words);
      }
    }
    static __device__ __forceinline__ unsigned bits(const T* p) {
      if constexpr (sizeof(T) == 4) return *reinterpret_cast<const unsigned*>(p);
      return *reinterpret_cast<const unsigned short*>(p);
    }
  };

  static __device__ __forceinline__ void copy_weights(const char* tile, int rows, unsigned stage) {
#pragma unroll
    for (int i = 0; i < kTileM * kChunks / kThreads; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x);
      const int row = at / kChunks;
      cp_async<16>(stage + conv_offset(row, at % kChunks), tile + (row < rows ? at * 16 : 0),
                   row < rows ? 16 : 0);
    }
  }

  // x = high + low, both in TF32; low is 0 where x is not finite.
  static __device__ __forceinline__ void split(unsigned& x, unsigned& low) {
    const unsigned high = round_to_tf32(x);
    const float rest = __uint_as_float(x) - __uint_as_float(high);
    low = rest == rest ? round_to_tf32(__float_as_uint(rest)) : 0u;
    x = high;
  }

  static __device__ __forceinline__ void multiply(unsigned (&a)[kBlocksM][4],
                                                  unsigned (&b)[kBlocksN][4], Sums& sums) {
    unsigned a_low[kBlocksM][4];
    unsigned b_low[kBlocksN][4];
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < kBlocksM * 4; ++i) {
        split(a[i / 4][i % 4], a_low[i / 4][i % 4]);
      }
#pragma unroll
      for (int j = 0; j < kBlocksN * 4; ++j) {
        split(b[j / 4][j % 4], b_low[j / 4][j % 4]);
      }
    }
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i)
#pragma unroll
      for (int n = 0; n < kBlocksN * 2; ++n) {
        const unsigned (&right)[4] = b[n / 2];
        if constexpr (kPrecise) {
          const unsigned (&low)[4] = b_low[n / 2];
          Mma<T, T>::template run<0>(sums[i][n], a_low[i], right[n % 2 * 2], right[n % 2 * 2 + 1]);
          Mma<T, T>::template run<0>(sums[i][n], a[i], low[n % 2 * 2], low[n % 2 * 2 + 1]);
        }
        Mma<T, T>::template run<0>(sums[i][n], a[i], right[n % 2 * 2], right[n % 2 * 2 + 1]);
      }
  }

  // Addresses of a lane's fragments. Each group of eight lanes has the lines of one matrix.
  struct Lane {
    unsigned a;      // offset in the weight tile
    int line;        // of the window, at tap 0
    int k_half;      // of its 32 bytes
    int block_step;  // lines from 16 positions to the next

    __device__ __forceinline__ Lane(const ConvTiles& tiles, int warp_m, int warp_n) {
      const int lane = static_cast<int>(threadIdx.x) & 31;
      const int low = lane >> 3 & 1;
      const int high = lane >> 4;
      const int row = warp_m + low * 8 + (lane & 7);
      a = conv_offset(row, high);
      k_half = low;
      const int line_step = tiles.stride_h * tiles.pitch;
      block_step = kTileW == 16 ? line_step : 16;
      line = warp_n / kTileW * line_step + warp_n % kTileW + high * 8 + (lane & 7);
    }
  };

  // One tap of one line block.
  static __device__ __forceinline__ void multiply_step(const Lane& lane, unsigned weights,
                                                       unsigned window, int tap_lines, int steps,
                                                       Sums& sums) {
    const unsigned x = conv_offset(lane.line + tap_lines, lane.k_half);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step >= steps) break;
      unsigned a[kBlocksM][4];
      unsigned b[kBlocksN][4];
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i)
        load_matrices(a[i], weights + (lane.a ^ static_cast<unsigned>(step << 5)) +
                                static_cast<unsigned>(i * 16 * kConvLineBytes));
#pragma unroll
      for (int j = 0; j < kBlocksN; ++j)
        load_matrices(b[j], window + (x ^ static_cast<unsigned>(step << 5)) +
                                static_cast<unsigned>(j * lane.block_step * kConvLineBytes));
      multiply(a, b, sums);
    }
  }

  static __device__ __forceinline__ int tap_lines(const ConvTiles& tiles, int tap) {
    return conv_line(tiles, tap / tiles.taps_w * tiles.dilation_h,
                     tap % tiles.taps_w * tiles.dilation_w);
  }

  static __device__ __forceinline__ void sum(const ConvArgs& args, const ConvTiles& tiles,
                                             const Feed& feed, const char* weights, int rows,
                                             int warp_m, int warp_n, Sums& sums) {
    unsigned char* const shared = dynamic_shared();
    const unsigned ring = shared_address(shared);
    unsigned char* const windows = shared + kStages * kStageBytes;
    const int window_bytes = tiles.window_h * tiles.pitch * kConvLineBytes;
    const int taps = tiles.taps_h * tiles.taps_w;
    const long long tile_bytes = static_cast<long long>(tiles.rows) * kConvLineBytes;
    const int num_steps = tiles.k_blocks * taps;
    // Chunks of the next window that a thread loads during one tap.
    const int items = (feed.positions + 31) / 32 * kPerWarp;
    const int per_tap = (items + taps - 1) / taps;
    const Lane lane(tiles, warp_m, warp_n);
    unsigned held[kHold][kVec];
    for (int i = 0; i < items; i += kHold) {
      feed.fetch(args, tiles, i, 0, held);
      feed.put(tiles, i, windows, held);
    }
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      if (s < num_steps) copy_weights(weights + s * tile_bytes, rows, ring + s * kStageBytes);
      cp_async_commit();
    }
    int step = 0;
    int read = 0;
    for (int block = 0; block < tiles.k_blocks; ++block) {
      const int channel = block * kLine;
      const int left = args.in_channels - channel;
      const int steps = left >= kLine ? kSteps : (left + kLine / kSteps - 1) / (kLine / kSteps);
      unsigned char* const next = windows + (block + 1) % 2 * window_bytes;
      const unsigned window = shared_address(windows + block % 2 * window_bytes);
      const bool more = block + 1 < tiles.k_blocks;
      for (int tap = 0; tap < taps; ++tap, ++step) {
        cp_async_wait<kStages - 2>();
        __syncthreads();
        const int write = read == 0 ? kStages - 1 : read - 1;
        if (step + kStages - 1 < num_steps)
          copy_weights(weights + (step + kStages - 1) * tile_bytes, rows,
                       ring + write * kStageBytes);
        cp_async_commit();
        const int last = more ? min((tap + 1) * per_tap, items) : 0;
        int item = tap * per_tap;
        if (item < last) feed.fetch(args, tiles, item, channel + kLine, held);
        const unsigned stage = ring + read * kStageBytes;
        if constexpr (kPrecise) {
          Sums part = {};
          multiply_step(lane, stage, window, tap_lines(tiles, tap), steps, part);
#pragma unroll
          for (int i = 0; i < kBlocksM * kBlocksN * 8; ++i)
            sums[i / (kBlocksN * 8)][i / 4 % (kBlocksN * 2)][i % 4] +=
                part[i / (kBlocksN * 8)][i / 4 % (kBlocksN * 2)][i % 4];
        } else {
          multiply_step(lane, stage, window, tap_lines(tiles, tap), steps, sums);
        }
        while (item < last) {
          feed.put(tiles, item, next, held);
          item += kHold;
          if (item < last) feed.fetch(args, tiles, item, channel + kLine, held);
        }
        read = read + 1 == kStages ? 0 : read + 1;
      }
    }
    cp_async_wait<0>();
    __syncthreads();
  }

  // The tile's place in the output.
  struct Target {
    long long batch;
    int group;
    int first_row, first_h, first_w;

    // Position `n` of the tile; false: outside.
    __device__ __forceinline__ bool place(const ConvTiles& tiles, int n, int& h, int& w) const {
      h = first_h + n / kTileW;
      w = first_w + n % kTileW;
      return h < tiles.positions_h && w < tiles.positions_w;
    }
  };

  static __device__ __forceinline__ void put_down(float* out, int warp_m, int warp_n,
                                                  const Sums& sums) {
    const int lane = static_cast<int>(threadIdx.x) & 31;
#pragma unroll
    for (int i = 0; i < kBlocksM * 2; ++i)
#pragma unroll
      for (int n = 0; n < kBlocksN * 2; ++n)
        store_vec<float, 2>(
            out + (warp_m + i * 8 + lane / 4) * kPitchOut + warp_n + n * 8 + lane % 4 * 2,
            {sums[i / 2][n][i % 2 * 2], sums[i / 2][n][i % 2 * 2 + 1]});
  }

  // Sixteen bytes of one channel at a time; plain convolutions.
  static __device__ __forceinline__ void store_wide(const ConvArgs& args, const ConvTiles& tiles,
                                                    const Target& to, const float* sums) {
    for (int i = static_cast<int>(threadIdx.x); i < kTileM * kTileN / kVec; i += kThreads) {
      const int row = i / (kTileN / kVec);
      const int n = i % (kTileN / kVec) * kVec;
      int h, w;
      if (to.first_row + row >= tiles.rows || !to.place(tiles, n, h, w)) continue;
      const int channel = to.group * args.out_channels + to.first_row + row;
      Vec<T, kVec> residual, out;
      if (args.residual != nullptr)
        residual = load_vec<T, kVec>(static_cast<const T*>(args.residual) +
                                     to.batch * args.residual_batch +
                                     channel * args.residual_channel + h * args.residual_row + w);
#pragma unroll
      for (int e = 0; e < kVec; ++e) {
        float v = conv_finish<T>(args, sums[row * kPitchOut + n + e], channel);
        if (args.residual != nullptr) v += to_compute(residual.v[e]);
        out.v[e] = from_compute<T>(v);
      }
      store_vec<T, kVec>(static_cast<T*>(args.out) + to.batch * args.out_batch +
                             channel * args.out_channel + h * args.out_row + w,
                         out);
    }
  }

  // Element by element, in the order of the output: the phases of a channel interleave. A warp
  // stores a channel at a time.
  static __device__ __forceinline__ void store_narrow(const ConvArgs& args, const ConvTiles& tiles,
                                                      const Target& to, const float* sums) {
    const int phases = tiles.phases;
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const int last = min((to.first_row + kTileM - 1) / phases, args.out_channels - 1);
    for (int c = to.first_row / phases + static_cast<int>(threadIdx.x) / 32; c <= last;
         c += kThreads / 32) {
      const int channel = to.group * args.out_channels + c;
      const long long out = to.batch * args.out_batch + channel * args.out_channel;
      const long long residual = to.batch * args.residual_batch + channel * args.residual_channel;
      int n = lane / phases;
      int phase = lane % phases;
      while (n < kTileN) {
        const int row = c * phases + phase - to.first_row;
        int h, w;
        const bool inside = to.place(tiles, n, h, w) && row >= 0 && row < kTileM;
        const int ow = w * phases + phase + tiles.out_first;
        if (inside && ow >= 0 && ow < args.out_w) {
          float v = conv_finish<T>(args, sums[row * kPitchOut + n], channel);
          if (args.residual != nullptr)
            v += to_compute(
                static_cast<const T*>(args.residual)[residual + h * args.residual_row + ow]);
          static_cast<T*>(args.out)[out + h * args.out_row + ow] = from_compute<T>(v);
        }
        n += 32 / phases;
        phase += 32 % phases;
        if (phase >= phases) {
          phase -= phases;
          ++n;
        }
      }
    }
  }
};

template <class T, bool kPrecise, int kTileM, int kTileN, int kTileW, int kWarpM, int kWarpN,
          int kStages, int kBlocks>
__global__ void __launch_bounds__(kTileM / kWarpM * (kTileN / kWarpN) * 32, kBlocks)
    conv_mma(const __grid_constant__ ConvArgs args, const __grid_constant__ ConvTiles tiles) {
  using Conv = ConvMma<T, kPrecise, kTileM, kTileN, kTileW, kWarpM, kWarpN, kStages>;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_m = warp % Conv::kWarpsM * kWarpM;
  const int warp_n = warp / Conv::kWarpsM * kWarpN;
  const int tiles_n = tiles.tiles_h * tiles.tiles_w;
  const int tile = static_cast<int>(blockIdx.x) % tiles_n;
  const int group = static_cast<int>(blockIdx.y) / tiles.tiles_m;
  const typename Conv::Target to{static_cast<int>(blockIdx.x) / tiles_n, group,
                                 static_cast<int>(blockIdx.y) % tiles.tiles_m * kTileM,
                                 tile / tiles.tiles_w * (kTileN / kTileW),
                                 tile % tiles.tiles_w * kTileW};
  const typename Conv::Feed feed{
      static_cast<const T*>(args.x) + to.batch * args.x_batch +
          static_cast<long long>(group) * args.in_channels * args.x_channel,
      to.first_h * tiles.stride_h - tiles.pad_h, to.first_w * tiles.stride_w - tiles.pad_w,
      tiles.window_h * tiles.window_w};
  const char* const weights =
      static_cast<const char*>(args.w) +
      (static_cast<long long>(group) * tiles.k_blocks * tiles.taps_h * tiles.taps_w * tiles.rows +
       to.first_row) *
          kConvLineBytes;

  typename Conv::Sums sums = {};
  Conv::sum(args, tiles, feed, weights, tiles.rows - to.first_row, warp_m, warp_n, sums);
  float* const out = reinterpret_cast<float*>(dynamic_shared());
  Conv::put_down(out, warp_m, warp_n, sums);
  __syncthreads();
  if (tiles.wide != 0) {
    Conv::store_wide(args, tiles, to, out);
  } else {
    Conv::store_narrow(args, tiles, to, out);
  }
}

}  // namespace gpk
