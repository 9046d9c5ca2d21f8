// Weights in 4 or 8 bits with scales: a value, and the rules of every format.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/array.h"
#include "kernels/args/quantize.h"
#include "plan/operand_format.h"

namespace gpk::ops {

enum class QuantFormat : std::uint8_t {
  kInt8,
  kInt4,
  kFp8,
  kFp8E5M2,
  kNvfp4,
  kMxfp4,
  kMxfp8,
  kNf4,
  kSparse24
};
inline constexpr int kNumQuantFormats = 9;
const char* name(QuantFormat format);
// Throws InvalidArgument that lists the names.
QuantFormat quant_format_named(std::string_view name, const char* op);

// A format and what may be chosen about it.
struct PackedLayout {
  QuantFormat format = QuantFormat::kInt8;
  // Values of k to a scale; 0: a whole row. nvfp4 16, mx 32, nf4 64; integers 0, 32, 64 or 128.
  std::int64_t group = 0;
  bool zero_points = false;  // integers: unsigned values minus a zero point
  bool blocks = false;       // FP8: a scale for each block of 128 x 128

  [[nodiscard]] int code() const;        // kernels::PackedCode
  [[nodiscard]] int scale_code() const;  // kernels::ScaleCode
  [[nodiscard]] bool is_nibble() const { return (kernels::kNibbleCodes >> code() & 1) != 0; }
  // 2:4: values keep their dtype, float16 or bfloat16, and have metadata instead of scales.
  [[nodiscard]] bool is_sparse() const { return format == QuantFormat::kSparse24; }
  [[nodiscard]] DType scale_dtype() const;
  [[nodiscard]] std::int64_t scale_rows() const { return blocks ? 128 : 1; }
  [[nodiscard]] std::int64_t group_of(std::int64_t k) const { return group == 0 ? k : group; }
  [[nodiscard]] std::int64_t row_bytes(std::int64_t k) const;  // a multiple of 16
  [[nodiscard]] std::int64_t num_groups(std::int64_t k) const;
  friend bool operator==(const PackedLayout&, const PackedLayout&) = default;
};

// The layout with the format's own group where `group` is nullopt. Throws InvalidArgument for what
// the format does not have.
PackedLayout make_layout(QuantFormat format, std::optional<std::int64_t> group, bool zero_points,
                         bool blocks, const char* op);

// "int4, group 128, zero points".
std::string to_string(const PackedLayout& layout);

struct PackedWeight {
  PackedLayout layout;
  Dims shape;   // [n, k] or [experts, n, k]
  DType dtype;  // of the weights that were quantised
  // Rows are all rows of `shape`, n or experts * n of them.
  // uint8 [rows, row_bytes]: two 4-bit values to a byte, low nibble first; 0 past k. 2:4: of
  // `dtype`, two of every four along k.
  Array values;
  // [rows, groups], of blocks [ceil(n / 128), ceil(k / 128)]; uint8: e8m0. Not of 2:4.
  std::optional<Array> scales = {};
  std::optional<Array> zero_points = {};   // uint8, as the scales
  std::optional<Array> tensor_scale = {};  // nvfp4: float32, one element; multiplies every scale
  // 2:4: uint32 [ceil(n / 16), ceil(k / 64), 32], as kernels/quantize/sparse.cuh says.
  std::optional<Array> metadata = {};

  [[nodiscard]] std::int64_t n() const { return shape[shape.size() - 2]; }
  [[nodiscard]] std::int64_t k() const { return shape[shape.size() - 1]; }
  [[nodiscard]] std::int64_t num_rows() const { return values.shape()[0]; }
  [[nodiscard]] std::int64_t num_bytes() const;
  [[nodiscard]] Device device() const { return values.device(); }

  // The parts that there are, by the names they have in files.
  [[nodiscard]] std::array<std::pair<const char*, const Array*>, 5> parts() const;
};

// Throws InvalidArgument unless dtypes, shapes and devices of the parts are those of the layout.
void check_packed(const PackedWeight& weight, const char* op);

// Room for a weight of `shape`.
PackedWeight empty_packed(const PackedLayout& layout, const Dims& shape, DType dtype, Device device,
                          const char* op);

// Matrix `index` of a stack of them: a view.
PackedWeight matrix_of(const PackedWeight& stack, std::int64_t index);

// As an operand of matmul, [k, n] after a transposition: elements are `dtype` of the format. 2:4:
// of the weights.
plan::OperandFormat operand_format(const PackedLayout& layout, DType weights = DType::kBFloat16);

std::string to_string(const PackedWeight& weight);

}  // namespace gpk::ops
