// A tile of an operand in shared memory: lines of kLineBytes in the operand's own layout (K-major
// or M-major) of 16-byte chunks, swizzled: the chunk index is XORed with a function of the line, so
// that neither copies nor fragment loads have bank conflicts. TileCopy loads tiles, kGranule bytes
// at a time: by cp.async from four bytes on, else through registers. Out-of-range reads give zeros.
#pragma once

#include "common/cp_async.cuh"
#include "common/dtype.cuh"

namespace gpk {

// kKMajor: a line is one row of the operand (m or n), else one k.
template <class T, int kNumLines, int kElems, bool kKMajor>
struct TileLayout {
  static constexpr int kLines = kNumLines;
  static constexpr int kLineElems = kElems;
  static constexpr int kLineBytes = kLineElems * static_cast<int>(sizeof(T));
  static constexpr int kPitchBytes = kLineBytes;
  static constexpr int kBytes = kLines * kPitchBytes;
  static constexpr int kChunks = kLineBytes / 16;
  static_assert(kChunks >= 2 && (kChunks & (kChunks - 1)) == 0, "lines of 32, 64, 128, ... bytes");
  // Period of the swizzle pattern, in lines.
  static constexpr int kPeriod = kKMajor || sizeof(T) == 2 ? 8 : sizeof(T) == 1 ? 16 : 4;

  // The eight lines accessed by one load get eight (or all) different values.
  static __device__ __forceinline__ int pattern(int line) {
    int p;
    if constexpr (kKMajor || sizeof(T) == 2) {
      p = line & 7;
    } else if constexpr (sizeof(T) == 1) {
      // Lines 0 1 4 5 8 9 12 13 are accessed together, and 2 3 6 7 ....
      p = (line & 1) | (line >> 1 & 6);
    } else {
      p = (line & 3) << 1;  // four lines of two chunks are accessed together
    }
    return kChunks >= 8 ? p : kChunks == 4 ? p >> 1 : p >> 2;
  }

  static __device__ __forceinline__ unsigned offset(int line, int byte) {
    return static_cast<unsigned>(line * kLineBytes + (((byte >> 4) ^ pattern(line)) << 4) +
                                 (byte & 15));
  }
};

template <class T, class Layout, int kGranule, int kThreads>
struct TileCopy {
  static constexpr bool kAsync = kGranule >= 4;
  static constexpr int kPerLine = Layout::kLineBytes / kGranule;
  static constexpr int kLineStep = kThreads > kPerLine ? kThreads / kPerLine : 1;
  static constexpr int kColSteps = kThreads > kPerLine ? 1 : kPerLine / kThreads;
  static constexpr bool kIdle = kLineStep > Layout::kLines;  // more threads than lines
  static constexpr int kLineSteps = kIdle ? 1 : Layout::kLines / kLineStep;
  static constexpr int kCount = kLineSteps * kColSteps;
  static_assert(kIdle || Layout::kLines % kLineStep == 0, "every thread copies as much");
  static_assert(kAsync || kGranule == sizeof(T), "through registers: element by element");

  const char* from;  // the thread's first granule of the next tile
  unsigned first_to;
  unsigned held[kAsync ? 1 : kCount];  // not packed: packing would wait for the loads at once

  // `first`: the tile's first element; `pitch`: between lines.
  __device__ __forceinline__ TileCopy(const T* first, long long pitch) {
    from = reinterpret_cast<const char*>(first + line() * pitch) + col_bytes();
    first_to = Layout::offset(line(), col_bytes());
  }

  // Starts loading the next tile, of which `lines` lines of `elems` elements exist; the one after
  // it is `tile_step` elements further. `operand`: any aligned address inside the operand.
  __device__ __forceinline__ void begin(unsigned shared, int lines, int elems, long long pitch,
                                        long long tile_step, const void* operand) {
    const long long line_step_bytes = pitch * (kLineStep * static_cast<int>(sizeof(T)));
    if (!kIdle || line() < Layout::kLines) {
      if (kAsync && lines >= Layout::kLines && elems >= Layout::kLineElems) {
        copy<true>(shared, 0, 0, line_step_bytes, operand);
      } else {
        copy<false>(shared, lines, min(elems, Layout::kLineElems) * static_cast<int>(sizeof(T)),
                    line_step_bytes, operand);
      }
    }
    from += tile_step * static_cast<int>(sizeof(T));
  }

  // Stores what was loaded through registers; the buffer must not be in use.
  __device__ __forceinline__ void end(unsigned shared) const {
    if constexpr (!kAsync) {
      if (kIdle && line() >= Layout::kLines) return;
#pragma unroll
      for (int at = 0; at < kCount; ++at)
        store_shared<kGranule>(shared + to(at / kColSteps, at % kColSteps), held[at]);
    }
  }

 private:
  // Recomputed from the thread index where needed: registers are scarce.
  static __device__ __forceinline__ int line() { return static_cast<int>(threadIdx.x) / kPerLine; }
  static __device__ __forceinline__ int col_bytes() {
    return static_cast<int>(threadIdx.x) % kPerLine * kGranule;
  }

  __device__ __forceinline__ unsigned to(int line_index, int col_index) const {
    if constexpr (kColSteps == 1 && kLineStep % Layout::kPeriod == 0)
      return first_to + static_cast<unsigned>(line_index * kLineStep * Layout::kPitchBytes);
    return Layout::offset(line() + line_index * kLineStep,
                          col_bytes() + col_index * kThreads * kGranule);
  }

  template <bool kWhole>
  __device__ __forceinline__ void copy(unsigned shared, int lines, int line_bytes,
                                       long long line_step_bytes, const void* operand) {
    const char* p = from;
#pragma unroll
    for (int i = 0; i < kLineSteps; ++i) {
#pragma unroll
      for (int j = 0; j < kColSteps; ++j) {
        const char* const at = p + j * kThreads * kGranule;
        const int left = line_bytes - col_bytes() - j * kThreads * kGranule;
        const bool inside = line() + i * kLineStep < lines;
        if constexpr (kWhole) {
          cp_async<kGranule>(shared + to(i, j), at);
        } else if constexpr (kAsync) {
          // Empty copies too must have an address that exists: it is translated.
          const bool any = inside && left > 0;
          cp_async<kGranule>(shared + to(i, j), any ? at : operand, any ? min(left, kGranule) : 0);
        } else {
          held[i * kColSteps + j] = inside && left > 0 ? fetch(at) : 0;
        }
      }
      p += line_step_bytes;
    }
  }

  static __device__ __forceinline__ unsigned fetch(const char* p) {
    if constexpr (kGranule == 2) return *reinterpret_cast<const unsigned short*>(p);
    return *reinterpret_cast<const unsigned char*>(p);
  }
};

}  // namespace gpk
