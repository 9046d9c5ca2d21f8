// Arguments of the kernels in kernels/elementwise.
#pragma once

namespace gpk::kernels {

// --- map ----------------------------------------------------------------------------------------

// Source of an operand's values, two bits of kKinds each: an array as long as the result, one
// element broadcast to all (along the inner axis in map_strided), a number passed by value.
enum class OperandKind : unsigned { kArray, kOneElement, kNumber };

struct alignas(16) Number {  // a value of the compute type, in the low bytes
  unsigned char bytes[16];
};

template <int kN>
struct MapArgs {
  const void* in[kN];
  void* out;
  Number number[kN];
};
static_assert(sizeof(MapArgs<2>) == 64 && __is_trivially_copyable(MapArgs<2>));

// (mulhi(n, magic) + n) >> shift divides every n < 2**31 by `divisor`, 1 to 2**31 - 1.
struct Divider {
  unsigned divisor, magic, shift;
};

template <int kN, int kRank, class Index>
struct StridedArgs {
  MapArgs<kN> map;
  long long n;  // work items: elements / kVec
  int rank;     // axes in use, the inner one first
  Divider size[kRank];
  long long long_size[kRank];
  Index stride[kRank][kN + 1];  // elements; the result's last
};
static_assert(sizeof(StridedArgs<2, 4, int>) == 208 &&
              __is_trivially_copyable(StridedArgs<2, 4, int>));

template <int kN>
struct AnyArgs {
  static constexpr unsigned char kNumber = 255;
  StridedArgs<kN, 32, long long> strided;
  unsigned char dtype[kN + 1];  // DType; kNumber: a number
};
static_assert(sizeof(AnyArgs<2>) == 1504 && __is_trivially_copyable(AnyArgs<2>));

// --- transpose ----------------------------------------------------------------------------------

struct TransposeArgs {
  static constexpr int kTile = 32;           // transpose_tiles: rows and columns per block
  static constexpr int kBlockBytes = 128;    // transpose_blocks: bytes per block along the rows
  static constexpr int kBlockColumns = 128;  // transpose_blocks: columns per block
  static constexpr int kMaxBatches = 30;
  const void* in;
  void* out;
  long long rows, columns;      // of the result: along r and c
  long long in_step, out_step;  // elements between columns of `in`, between rows of `out`
  int batch_rank;
  long long batch_size[kMaxBatches];
  long long batch_in[kMaxBatches];
  long long batch_out[kMaxBatches];
};
static_assert(sizeof(TransposeArgs) == 776 && __is_trivially_copyable(TransposeArgs));

// --- concat -------------------------------------------------------------------------------------

// One input: rows of `row` words, one after another.
struct ConcatPiece {
  const void* in;
  long long start;  // words: where its part of a row of the result begins
  Divider row;
  unsigned num_words;
  unsigned first_block;
};

struct ConcatArgs {
  static constexpr int kMaxPieces = 32;  // per launch
  static constexpr int kThreads = 256;
  static constexpr int kUnroll = 4;  // words per thread
  void* out;
  long long row_words;  // of the result
  int num_pieces;
  ConcatPiece piece[kMaxPieces];
};
static_assert(sizeof(ConcatArgs) == 1304 && __is_trivially_copyable(ConcatArgs));

// --- packed -------------------------------------------------------------------------------------

// The type of the two values per byte.
enum class PackedKind : int { kSigned, kUnsigned, kFloat };

}  // namespace gpk::kernels
