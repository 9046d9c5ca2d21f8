// What the kernels of kernels/quantize take, and the codes of packed weights.
#pragma once

namespace gpk::kernels {

// What the stored bits of a value mean.
enum PackedCode : int {
  kCodeInt4,   // two's complement
  kCodeUint4,  // minus a zero point
  kCodeInt8,
  kCodeUint8,  // minus a zero point
  kCodeE4M3,
  kCodeE5M2,
  kCodeE2M1,
  kCodeNf4,  // index into the 16 quantiles of a normal distribution
};
inline constexpr int kNumPackedCodes = 8;
inline constexpr int kCodeSparse = kNumPackedCodes;  // 2:4: floats; kernels of their own

enum ScaleCode : int {
  kScaleFloat,
  kScaleE4M3,  // times one float32 of the whole weight
  kScaleE8M0,  // powers of two: an exponent, biased by 127
};

// One bit for each PackedCode.
inline constexpr int kNibbleCodes =
    1 << kCodeInt4 | 1 << kCodeUint4 | 1 << kCodeE2M1 | 1 << kCodeNf4;
inline constexpr int kZeroPointCodes = 1 << kCodeUint4 | 1 << kCodeUint8;
template <int kCode>
inline constexpr bool kIsNibble = (kNibbleCodes >> kCode & 1) != 0;
template <int kCode>
inline constexpr bool kHasZeroPoint = (kZeroPointCodes >> kCode & 1) != 0;

inline constexpr int kQuantizeThreads = 128;
inline constexpr int kDequantizeValues = 8;  // of a thread

// w [n, k]. A scale is for `group` values of k, and for `scale_rows` rows.
struct QuantizeArgs {
  const void* w;          // quantize: the weights
  void* out;              // dequantize: [n, k], contiguous
  unsigned char* values;  // [n, values_row]; two 4-bit values to a byte, low nibble first
  void* scales;           // [n / scale_rows, groups] by ScaleCode
  unsigned char* zeros;   // [n / scale_rows, groups]; null: none
  const float* tensor_scale;
  long long n, k;
  long long w_row;       // in elements
  long long values_row;  // in bytes: a multiple of 16
  long long groups;
  int group;
  int scale_rows;
  int code;        // PackedCode
  int scale_code;  // ScaleCode
  // dequantize: rows used of each stacked matrix of matrix_rows; null: all of them.
  const int* sizes;
  long long matrix_rows;
};
static_assert(sizeof(QuantizeArgs) == 120 && __is_trivially_copyable(QuantizeArgs));

// 2:4 sparsity: kernels/quantize/sparse.cuh.
struct SparseArgs {
  const void* w;       // sparsify: the weights
  void* out;           // expand_sparse: [n, k], contiguous
  void* values;        // [n, values_row], of w's type
  unsigned* metadata;  // [n / 16, k_blocks, 32], rounded up
  long long n, k;
  long long w_row;
  long long values_row;  // in elements: a multiple of 8
  long long k_blocks;    // of 64
};
static_assert(sizeof(SparseArgs) == 72 && __is_trivially_copyable(SparseArgs));

}  // namespace gpk::kernels
