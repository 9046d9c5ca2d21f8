// How the stored values of an operand map to numbers: element type, packing, scales and zero
// points. A plain value, part of a family's desc.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"

namespace gpk::plan {

enum class Packing : std::uint8_t {
  kNone,       // one element per storage element
  kInt4Pairs,  // two int4 or uint4 per byte, low nibble first
  kNvf4Pairs,  // two float4_e2m1fn per byte, low nibble first
  kNf4Pairs,   // two indices into the table of nf4 per byte, low nibble first
  kSparse24,   // two of every four elements along K, and metadata that says which
};

// One scale per ...; rows and columns are those of the operand as a matrix.
enum class ScaleLayout : std::uint8_t {
  kNone,
  kTensor,
  kRow,
  kColumn,
  kBlocksOfK,      // scale_block elements along K, separately for each row (or column)
  kBlocks128x128,  // 128 along K by 128 rows (or columns)
};

struct OperandFormat {
  DType dtype = DType::kFloat32;  // of an element
  Packing packing = Packing::kNone;
  ScaleLayout scales = ScaleLayout::kNone;
  // kFloat32 also where there are no scales. kUInt8: e8m0, an exponent biased by 127.
  DType scale_dtype = DType::kFloat32;
  std::uint8_t scale_block = 0;  // kBlocksOfK: 16, 32, 64 or 128; else 0
  bool zero_points = false;

  // No scales, zero points or packing: stored values are the values.
  [[nodiscard]] constexpr bool is_plain() const noexcept {
    return packing == Packing::kNone && scales == ScaleLayout::kNone && !zero_points;
  }
  // Unpacked, and scales (if any) are float32 factors of whole dot products, so that an epilogue
  // can apply them.
  [[nodiscard]] constexpr bool scales_in_epilogue() const noexcept {
    return packing == Packing::kNone && !zero_points && scales <= ScaleLayout::kColumn &&
           scale_dtype == DType::kFloat32;
  }
  friend bool operator==(const OperandFormat&, const OperandFormat&) = default;
};

constexpr bool is_fp8(DType dtype) noexcept {
  return dtype == DType::kFloat8E4M3FN || dtype == DType::kFloat8E5M2;
}

// The format of the transposed matrix: rows become columns.
OperandFormat transposed(OperandFormat format) noexcept;

// "float32 scale per row", "float16 scale per 128 of k and zero point"; empty: none.
std::string scale_text(const OperandFormat& format);
// "bfloat16", "float8_e4m3fn with float32 scale per row", "int4 in pairs with ...".
std::string to_string(const OperandFormat& format);

}  // namespace gpk::plan
