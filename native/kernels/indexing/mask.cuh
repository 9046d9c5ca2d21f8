// Stream compaction by a mask of n bytes (nonzero: true), ordered and deterministic.
// count_kernel: true bytes per chunk -> counts[block]. scan_kernel: exclusive sums in place,
// followed by the total; one block. emit_kernel: the selected items, to out[sum + rank]: kOffsets
// the offset sum(coordinate * stride), kCoords the coordinates as rows of `pitch` elements, kWords
// src at the offset.
// Grid: one block of 256 threads per chunk (a multiple of 4096 bytes). A tile of 4096 mask bytes is
// read 16 bytes per thread; positions go through a list in shared memory (8 KiB), so that the
// stores of a tile are coalesced whatever the mask.
#pragma once

#include "indexing/layout.cuh"

namespace gpk {

constexpr int kMaskThreads = MaskLayout::kThreads;
constexpr int kMaskTile = MaskLayout::kTile;

// One bit per nonzero byte of a 32-bit word.
__device__ __forceinline__ unsigned byte_bits(unsigned word) {
  const unsigned high = (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u;
  return ((high >> 7) * 0x10204080u) >> 28;
}

// Bits of mask[at .. at + 16), zero from n on.
__device__ __forceinline__ unsigned mask_bits(const unsigned char* mask, long long at,
                                              long long n) {
  if (at + 16 <= n && (reinterpret_cast<unsigned long long>(mask + at) & 15u) == 0) {
    const uint4 words = *reinterpret_cast<const uint4*>(mask + at);
    return byte_bits(words.x) | byte_bits(words.y) << 4 | byte_bits(words.z) << 8 |
           byte_bits(words.w) << 12;
  }
  unsigned bits = 0;
  for (int i = 0; i < 16; ++i)
    if (at + i < n && mask[at + i] != 0) bits |= 1u << i;
  return bits;
}

__device__ __forceinline__ long long chunk_end(long long chunk, long long n) {
  const long long end = (static_cast<long long>(blockIdx.x) + 1) * chunk;
  return end < n ? end : n;
}

// Inclusive prefix sum over the warp.
__device__ __forceinline__ long long warp_sums(long long value) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const long long lower = __shfl_up_sync(0xffffffffu, value, step);
    if (lane >= step) value += lower;
  }
  return value;
}

__global__ void __launch_bounds__(kMaskThreads)
    count_kernel(const unsigned char* mask, long long n, long long chunk, long long* counts) {
  __shared__ long long warps[kMaskThreads / 32];
  long long count = 0;
  const long long end = chunk_end(chunk, n);
  for (long long tile = blockIdx.x * chunk; tile < end; tile += kMaskTile)
    count += __popc(mask_bits(mask, tile + threadIdx.x * 16, end));
  const long long sum = warp_sums(count);
  if ((threadIdx.x & 31) == 31) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  long long total = 0;
  for (int w = 0; w < kMaskThreads / 32; ++w) total += warps[w];
  counts[blockIdx.x] = total;
}

// counts[0 .. m) become exclusive sums, counts[m] the total. One block of 1024 threads.
__global__ void __launch_bounds__(1024) scan_kernel(long long* counts, int m) {
  __shared__ long long warps[32];
  long long carry = 0;
  for (int first = 0; first < m; first += 1024) {
    const int at = first + threadIdx.x;
    const long long count = at < m ? counts[at] : 0;
    const long long inclusive = warp_sums(count);
    if ((threadIdx.x & 31) == 31) warps[threadIdx.x / 32] = inclusive;
    __syncthreads();
    if (threadIdx.x < 32) warps[threadIdx.x] = warp_sums(warps[threadIdx.x]);
    __syncthreads();
    const long long before = threadIdx.x < 32 ? 0 : warps[threadIdx.x / 32 - 1];
    if (at < m) counts[at] = carry + before + inclusive - count;
    carry += warps[31];
    __syncthreads();
  }
  if (threadIdx.x == 0) counts[m] = carry;
}

template <class U>
__device__ __forceinline__ long long offset_at(const MaskLayout& l, U position) {
  long long offset = 0;
#pragma unroll 1
  for (int d = l.rank - 1; d > 0; --d) {
    const U size = static_cast<U>(l.size[d]);
    const U rest = position / size;
    offset += static_cast<long long>(position - rest * size) * l.stride[d];
    position = rest;
  }
  return offset + static_cast<long long>(position) * l.stride[0];
}

__device__ __forceinline__ void write_coords(const MaskLayout& l, unsigned long long position,
                                             long long* out, long long pitch) {
#pragma unroll 1
  for (int d = l.rank - 1; d > 0; --d) {
    const auto size = static_cast<unsigned long long>(l.size[d]);
    const unsigned long long rest = position / size;
    out[d * pitch] = static_cast<long long>(position - rest * size);
    position = rest;
  }
  out[0] = static_cast<long long>(position);
}

template <class Word, Emit kEmit>
__global__ void __launch_bounds__(kMaskThreads)
    emit_kernel(const unsigned char* mask, long long n, long long chunk, const long long* starts,
                const __grid_constant__ MaskLayout l, const Word* src, Word* out, long long pitch) {
  __shared__ unsigned short list[kMaskTile];
  __shared__ int warps[kMaskThreads / 32];
  long long base = starts[blockIdx.x];
  const long long end = chunk_end(chunk, n);
  for (long long tile = blockIdx.x * chunk; tile < end; tile += kMaskTile) {
    unsigned bits = mask_bits(mask, tile + threadIdx.x * 16, end);
    const int count = __popc(bits);
    const int inclusive = static_cast<int>(warp_sums(count));
    if ((threadIdx.x & 31) == 31) warps[threadIdx.x / 32] = inclusive;
    __syncthreads();
    int rank = inclusive - count;
    int total = 0;
#pragma unroll
    for (int w = 0; w < kMaskThreads / 32; ++w) {
      if (w < static_cast<int>(threadIdx.x / 32)) rank += warps[w];
      total += warps[w];
    }
    for (; bits != 0; bits &= bits - 1)
      list[rank++] = static_cast<unsigned short>(threadIdx.x * 16 + __ffs(bits) - 1);
    __syncthreads();
    for (int r = threadIdx.x; r < total; r += kMaskThreads) {
      const long long position = tile + list[r];
      if constexpr (kEmit == Emit::kCoords) {
        write_coords(l, position, reinterpret_cast<long long*>(out) + base + r, pitch);
      } else {
        const long long offset = n <= 0xffffffffLL
                                     ? offset_at<unsigned>(l, static_cast<unsigned>(position))
                                     : offset_at<unsigned long long>(l, position);
        if constexpr (kEmit == Emit::kWords) {
          out[base + r] = src[offset];
        } else {
          out[base + r] = static_cast<Word>(offset);
        }
      }
    }
    base += total;
    __syncthreads();
  }
}

// out[d * pitch + i] = coordinate d of indices[i] in the shape of `l`; out of bounds: reported, 0.
// Grid: ceil(n / 256) blocks.
__global__ void unravel_kernel(const long long* indices, long long n, long long total,
                               const __grid_constant__ MaskLayout l, long long* out,
                               const __grid_constant__ IndexReport report) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long index = indices[i];
  if (index < 0 || index >= total) {
    report_index(report, index, total, -1);
    index = 0;
  }
  write_coords(l, index, out + i, n);
}

}  // namespace gpk
