// Weights for conv_mma: [groups, k_blocks, taps, rows, line], lines of 128 bytes of input channels,
// zeros past the last one. Plain: from [out_channels, in_channels, taps]. Transposed: from
// [in_channels, out_channels, taps]; row co * phases + r of tap j has the tap
// r + (gemm_taps - 1 - j) * phases, or zeros. A thread writes 16 bytes; neighbours read neighbours.
#pragma once

#include "args/conv.h"
#include "common/dtype.cuh"
#include "common/vec.cuh"

namespace gpk {

using namespace kernels;

template <class T, bool kTransposed>
__global__ void __launch_bounds__(256) conv_pack(const __grid_constant__ ConvPackArgs args) {
  constexpr int kVec = 16 / static_cast<int>(sizeof(T));
  constexpr int kChunks = kConvLineBytes / 16;
  const unsigned id = blockIdx.x * 256 + threadIdx.x;
  if (id >= args.num_chunks) return;
  const auto rows = static_cast<unsigned>(args.out_channels * args.phases);
  const unsigned tile = id / (rows * kChunks);  // (group, k_block, tap)
  const unsigned within = id - tile * (rows * kChunks);
  const int chunk = static_cast<int>(kTransposed ? within / rows : within % kChunks);
  const int row = static_cast<int>(kTransposed ? within % rows : within / kChunks);
  const int tap = static_cast<int>(tile % static_cast<unsigned>(args.gemm_taps));
  const unsigned blocks = tile / static_cast<unsigned>(args.gemm_taps);
  const int block = static_cast<int>(blocks % static_cast<unsigned>(args.k_blocks));
  const long long group = blocks / static_cast<unsigned>(args.k_blocks);
  const int first = block * kChunks * kVec + chunk * kVec;
  const T* const w = static_cast<const T*>(args.w);
  Vec<T, kVec> line;
#pragma unroll
  for (int e = 0; e < kVec; ++e) {
    line.v[e] = convert<T>(0.0f);
    const int channel = first + e;
    if (channel >= args.in_channels) continue;
    if constexpr (kTransposed) {
      const int from = row % args.phases + (args.gemm_taps - 1 - tap) * args.phases;
      if (from < args.taps)
        line.v[e] =
            w[((group * args.in_channels + channel) * args.out_channels + row / args.phases) *
                  args.taps +
              from];
    } else {
      line.v[e] =
          w[((group * args.out_channels + row) * args.in_channels + channel) * args.taps + tap];
    }
  }
  store_vec<T, kVec>(static_cast<T*>(args.packed) +
                         ((static_cast<long long>(tile) * rows + row) * kChunks + chunk) * kVec,
                     line);
}

}  // namespace gpk
