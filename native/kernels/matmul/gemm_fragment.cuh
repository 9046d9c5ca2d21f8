// From a tile in shared memory to mma.sync fragments: kWarp rows of an operand and 32 bytes of k at
// a time. A block is 16 rows, in four registers: for A in the order rows-half 0 / 1 of k-half 0,
// then of k-half 1; for B both k-halves of rows-half 0, then of rows-half 1.
// K-major operands are loaded by ldmatrix directly. M-major ones: 16-bit types are transposed by
// ldmatrix; 8-bit types in pairs, which are then reordered by prmt; 32-bit types use plain loads
// that write the registers an instruction takes together: pairs of rows for A, single words for B.
// Pairs permute the rows of C: see row().
#pragma once

#include "common/mma.cuh"
#include "matmul/gemm_copy.cuh"

namespace gpk {

template <class T, class Layout, int kWarp, bool kKMajor, bool kIsA>
struct Fragments {
  static constexpr int kBlocks = kWarp / 16;
  static constexpr bool kWords = !kKMajor && sizeof(T) == 4;
  static constexpr bool kBytes = !kKMajor && sizeof(T) == 1;
  static constexpr bool kInOrder = !kBytes && !(kWords && kIsA);
  static constexpr int kStepK = 32 / static_cast<int>(sizeof(T));
  static_assert(kWarp % (kKMajor ? 16 : 32) == 0, "rows that the layout's patterns repeat after");

  unsigned offset;  // of the lane's address in the tile

  __device__ __forceinline__ Fragments(int first_row, int lane) {
    const int low = lane >> 3 & 1;
    const int high = lane >> 4;
    const int row_half = kIsA ? low : high;
    const int k_half = kIsA ? high : low;
    if constexpr (kKMajor) {
      offset = Layout::offset(first_row + row_half * 8 + (lane & 7), k_half * 16);
    } else if constexpr (kBytes) {
      const int k = high * 16 + low * 2 + (lane >> 1 & 3) * 4 + (lane & 1);
      offset = Layout::offset(k, first_row);
    } else if constexpr (kWords) {
      offset = Layout::offset(lane & 3, (first_row + (lane >> 2) * (kIsA ? 2 : 1)) * 4);
    } else {
      offset = Layout::offset(k_half * 8 + (lane & 7), (first_row + row_half * 8) * 2);
    }
  }

  __device__ __forceinline__ void load(unsigned (&r)[kBlocks][4], unsigned tile, int step) const {
    const unsigned down = tile + static_cast<unsigned>(step * kStepK * Layout::kLineBytes);
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if constexpr (kKMajor) {
        load_matrices(r[i], tile + (offset ^ static_cast<unsigned>(step << 5)) +
                                static_cast<unsigned>(i * 16 * Layout::kLineBytes));
      } else if constexpr (kBytes) {
        load_bytes(r[i], down + (offset ^ static_cast<unsigned>(i << 4)));
      } else if constexpr (kWords) {
        load_words(r[i], down + static_cast<unsigned>(i / 2 * 128), i % 2 * 64);
      } else {
        load_matrices_transposed(r[i], down + (offset ^ static_cast<unsigned>(i << 5)));
      }
    }
  }

  // The operand's row (within the warp's) held in row `g` of half `half` of a block.
  static __device__ __forceinline__ int row(int block, int half, int g) {
    return block * 16 + (kInOrder ? half * 8 + g : g * 2 + half);
  }

 private:
  static __device__ constexpr int place(int row_half, int k_half) {
    return kIsA ? row_half + 2 * k_half : 2 * row_half + k_half;
  }

  static __device__ __forceinline__ void load_bytes(unsigned (&r)[4], unsigned address) {
    unsigned raw[4];
    load_matrices_transposed(raw, address);
#pragma unroll
    for (int k_half = 0; k_half < 2; ++k_half) {
      r[place(0, k_half)] = __byte_perm(raw[2 * k_half], raw[2 * k_half + 1], 0x6420);
      r[place(1, k_half)] = __byte_perm(raw[2 * k_half], raw[2 * k_half + 1], 0x7531);
    }
  }

  // `byte`: offset of the block within 128 bytes of a line.
  __device__ __forceinline__ void load_words(unsigned (&r)[4], unsigned base, int byte) const {
#pragma unroll
    for (int k_half = 0; k_half < 2; ++k_half) {
      const unsigned line = base + static_cast<unsigned>(k_half * 4 * Layout::kLineBytes);
      if constexpr (kIsA) {
        load_shared(r[2 * k_half], r[2 * k_half + 1],
                    line + (offset ^ static_cast<unsigned>(byte)));
      } else {
        load_shared(r[k_half], line + (offset ^ static_cast<unsigned>(byte)));
        load_shared(r[2 + k_half], line + (offset ^ static_cast<unsigned>(byte + 32)));
      }
    }
  }
};

}  // namespace gpk
