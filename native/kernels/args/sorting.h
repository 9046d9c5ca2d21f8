// Arguments of the kernels in kernels/sorting. Fields named `code` hold a DType.
#pragma once

namespace gpk::kernels {

enum class KeyKind : unsigned { kUnsigned, kSigned, kFloat, kComplex };

// How elements map to unsigned keys (sorting/key.cuh). inf, nan: bits of +inf and of the quiet NaN
// of the dtype, or of one part of a complex dtype.
struct KeyOrder {
  unsigned long long inf = 0;
  unsigned long long nan = 0;
  KeyKind kind = KeyKind::kUnsigned;
  unsigned descending = 0;
};
static_assert(sizeof(KeyOrder) == 24 && __is_trivially_copyable(KeyOrder));

// --- radix sort ---------------------------------------------------------------------------------

struct RadixHistogramArgs {
  const void* keys;
  unsigned long long* counts;
  unsigned* done;
  unsigned* active;
  long long len;
  long long piece;  // keys per block
  unsigned blocks_per_row;
  unsigned copy_bits;  // log2 of the number of histogram copies
  KeyOrder order;
};
static_assert(sizeof(RadixHistogramArgs) == 80 && __is_trivially_copyable(RadixHistogramArgs));

enum PassFlags : unsigned { kWidenValues = 1, kDropKeys = 2 };

struct PassArgs {
  const void* keys_in;
  void* keys_out;
  void* keys_tmp;
  const void* vals_in;
  void* vals_out;
  void* vals_tmp0;
  void* vals_tmp1;
  const unsigned long long* starts;  // start of each digit's run in row 0
  unsigned long long* carry_out;     // starts for the next portion of the row; may be null
  unsigned* lookback;                // tiles x 256, zeroed
  unsigned* lookback_next;           // to be zeroed for the next launch
  unsigned* counter;                 // zeroed
  const unsigned* active;
  long long len;           // keys per row
  long long first;         // of the portion, in its row
  long long end;           // of the portion, in its row
  unsigned starts_stride;  // between rows
  unsigned tiles_per_row;
  unsigned num_tiles;
  unsigned num_tiles_next;  // rows of lookback_next
  unsigned pass;
  unsigned flags;  // PassFlags
  KeyOrder order;
};
static_assert(sizeof(PassArgs) == 176 && __is_trivially_copyable(PassArgs));

// --- sort within a block ------------------------------------------------------------------------

struct BlockSortArgs {
  static constexpr int kItems = 8;  // slots per thread
  const void* keys_in;
  void* keys_out;           // may be null with indices
  const unsigned* vals_in;  // null: row positions
  void* vals_out;
  long long rows;
  long long len;
  unsigned segment_bits;  // log2(segment)
  unsigned widen;         // vals_out holds long long
  KeyOrder order;
};
static_assert(sizeof(BlockSortArgs) == 80 && __is_trivially_copyable(BlockSortArgs));

// --- gather, parts of complex keys --------------------------------------------------------------

struct GatherArgs {
  const void* in;
  const void* index;
  void* out;             // may be null
  long long* index_out;  // may be null
  long long rows, len, index_len, count;
};
static_assert(sizeof(GatherArgs) == 64 && __is_trivially_copyable(GatherArgs));

// In sort order: least significant first.
enum class ComplexPart : unsigned { kImaginary, kReal, kClass };

struct ComplexPartArgs {
  const void* in;
  const void* index;  // null: identity
  void* keys;         // parts as they are, or unsigned char for kClass
  long long rows, len;
  ComplexPart part;
  unsigned wide;  // index holds 64 bits
  KeyOrder order;
};
static_assert(sizeof(ComplexPartArgs) == 72 && __is_trivially_copyable(ComplexPartArgs));

// --- compaction ---------------------------------------------------------------------------------

struct CompactArgs {
  static constexpr int kThreads = 256;
  static constexpr int kItems = 16;
  static constexpr int kTile = kThreads * kItems;
  const void* data;            // null with flags: indices only
  const unsigned char* flags;  // null: run heads
  unsigned long long* sums;    // tiles + 1
  const long long* order;
  void* values;
  long long* places;
  long long* index;
  long long* inverse;
  long long n;
  unsigned nan_equal;
  unsigned unused;
  KeyOrder order_of;  // kind and NaN of the elements
};
static_assert(sizeof(CompactArgs) == 104 && __is_trivially_copyable(CompactArgs));

// --- search -------------------------------------------------------------------------------------

enum class SearchMode : unsigned { kLeft, kRight, kOccurs };

struct SearchArgs {
  const void* table;
  const long long* sorter;
  const void* queries;
  void* out;
  long long n;
  long long num_queries;
  SearchMode mode;
  unsigned invert;
  unsigned by_data;
  unsigned unused;
  KeyOrder order;
};
static_assert(sizeof(SearchArgs) == 88 && __is_trivially_copyable(SearchArgs));

// --- histogram ----------------------------------------------------------------------------------

struct HistogramArgs {
  const void* data;
  const double* edges;
  void* out;  // unsigned long long counts, zeroed; or unsigned bins
  long long n;
  long long num_bins;
  unsigned code;
  unsigned direct;
  unsigned uniform;     // edges are evenly spaced: guess, then correct
  unsigned num_copies;  // of the counts in shared memory; 0: none
};
static_assert(sizeof(HistogramArgs) == 56 && __is_trivially_copyable(HistogramArgs));

struct EdgesArgs {
  const void* ends;  // first and last, as elements of ends_code; null: low and high
  double* edges;     // num_bins + 1
  void* out;         // same in out_code
  double low, high;
  long long num_bins;
  unsigned ends_code, out_code;
};
static_assert(sizeof(EdgesArgs) == 56 && __is_trivially_copyable(EdgesArgs));

struct SegmentSumArgs {
  const unsigned* bins;    // sorted
  const long long* order;  // element index of each
  const void* weights;
  double* partial;  // num_bins x pieces
  long long n;
  unsigned code;
  unsigned pieces;
};
static_assert(sizeof(SegmentSumArgs) == 48 && __is_trivially_copyable(SegmentSumArgs));

// --- quantile -----------------------------------------------------------------------------------

struct QuantileArgs {
  static constexpr int kMaxQuantiles = 16;  // per launch
  const void* data;
  void* out;
  long long rows, len, num_q;
  unsigned code, out_code;
  unsigned median;
  unsigned unused;
  double q[kMaxQuantiles];
};
static_assert(sizeof(QuantileArgs) == 184 && __is_trivially_copyable(QuantileArgs));

}  // namespace gpk::kernels
