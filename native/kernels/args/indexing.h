// Arguments of the kernels in kernels/indexing, beside index_report.h.
#pragma once

namespace gpk::kernels {

// How an index outside [-size, size) is handled. kOffset: values are offsets, not indices. kStrict:
// like kRaise, and negative ones are out of bounds too.
enum class IndexMode : int { kRaise, kWrap, kClip, kOffset, kStrict };

// The integer type of an index array.
enum class IndexType : int { kInt8, kInt16, kInt32, kInt64, kUInt8, kUInt16, kUInt32, kUInt64 };

// An offset that selects nothing.
inline constexpr long long kSkipOffset = -0x7fffffffffffffffLL - 1;

template <int kMaxDims>
struct IndexSource {
  const void* data = nullptr;
  long long size = 0;               // of the indexed axis
  long long step = 0;               // words of side a per index
  long long stride[kMaxDims] = {};  // elements per coordinate
  int axis = 0;                     // for messages
  IndexType type = IndexType::kInt8;
};
static_assert(sizeof(IndexSource<8>) == 96 && __is_trivially_copyable(IndexSource<8>));

// Coordinates run over size[0..rank), C order. Side a is the indexed array, side b the plain one;
// strides in words.
template <int kMaxDims, int kMaxIndexes>
struct IndexedLayout {
  static constexpr int kDims = kMaxDims;
  static constexpr int kIndexes = kMaxIndexes;
  long long total = 1;
  long long size[kMaxDims] = {};
  long long a[kMaxDims] = {};
  long long b[kMaxDims] = {};
  IndexSource<kMaxDims> index[kMaxIndexes];
  int rank = 0;  // at least 1 at a launch
  int num_indexes = 0;
  IndexMode mode = IndexMode::kRaise;
  int unused = 0;
};

using WideLayout = IndexedLayout<32, 4>;
using NarrowLayout = IndexedLayout<8, 1>;  // a shorter kernel argument for the usual cases
using FillLayout = IndexedLayout<32, 1>;
static_assert(sizeof(NarrowLayout) == 312 && __is_trivially_copyable(NarrowLayout));
static_assert(sizeof(WideLayout) == 1944 && __is_trivially_copyable(WideLayout));
static_assert(sizeof(FillLayout) == 1080 && __is_trivially_copyable(FillLayout));

// Output of mask compaction: offsets, coordinates, or the selected words.
enum class Emit : int { kOffsets, kCoords, kWords };

struct MaskLayout {
  static constexpr int kThreads = 256;
  static constexpr int kTile = kThreads * 16;  // mask bytes a block reads per tile
  long long size[32] = {};
  long long stride[32] = {};
  int rank = 0;  // at least 1 at a launch
  int unused = 0;
};
static_assert(sizeof(MaskLayout) == 520 && __is_trivially_copyable(MaskLayout));

}  // namespace gpk::kernels
