// Arrays as rows along the last axis, the checks that ops over rows share, and how rows are dealt
// out to threads.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/array.h"
#include "core/launch.h"
#include "ops/cpu_backend.h"

namespace gpk::ops::nn {

struct Rows {
  Array array;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t stride = 0;  // from row to row, in elements
};

// nullopt where the elements of a row have gaps or the rows no common stride.
std::optional<Rows> try_rows(const Array& array);
// The same, of a contiguous copy where it has to be. `array` has at least one dimension.
Rows rows_of(const Array& array, const char* op);

// Threads go through a row in 32 bits, by steps of less than 2^16 elements.
inline constexpr std::int64_t kMaxRowWidth = (std::int64_t{1} << 31) - (1 << 16);

// Throws unless the dtype is float16, bfloat16 or float32.
void check_float(const Array& array, const char* argument, const char* op);
// The same, and at least `ndim` dimensions, the last one of at most kMaxRowWidth elements.
void check_rows(const Array& array, const char* argument, int ndim, const char* op);
// Throws unless `other` has x's shape, dtype and device.
void check_like(const Array& x, const Array& other, const char* argument, const char* op);
// Throws unless the weights have `shape`, the dtype of x or float32, and x's device.
void check_weight(const Array& x, const std::optional<Array>& weight, const Dims& shape,
                  const char* argument, const char* op);

// Whether a kernel that reads an element of `inputs` before it writes the same one of `out`, and no
// other, may write straight to `out`: rows of that dtype, in the place of an input or apart from
// it.
bool takes_rows(const Array& out, DType dtype, std::initializer_list<const Array*> inputs);

// The threads of a row, a function of its width and the alignment alone: results do not depend on
// the number of rows.
struct RowPlan {
  int vec = 1;       // elements per access
  int accesses = 0;  // per thread, in registers; 0: rows are read from memory in every pass
  int group = 32;    // threads that share a row
  friend bool operator==(const RowPlan&, const RowPlan&) = default;
};
RowPlan plan_rows(std::int64_t width, std::size_t itemsize, bool aligned);
// The same where `arrays` arrays fetched ahead fit into the shared memory of a block, else rows
// that are read from memory in every pass.
RowPlan fit_rows(const RowPlan& plan, int arrays, std::size_t shared_limit);
std::string to_string(const RowPlan& plan);  // "rows(vec=8, accesses=4, group=128)"
// The plan that every bundle has a kernel for.
RowPlan general_plan(std::int64_t width);

// Whether rows start at 16-byte boundaries; nullptr entries are skipped.
bool is_aligned(std::initializer_list<const Rows*> rows);
bool is_aligned(const std::optional<Array>& array);

// Blocks for all rows; where `arrays` arrays are fetched ahead (kernels/nn/row.cuh), as many as are
// resident.
LaunchConfig row_grid(std::int64_t rows, const RowPlan& plan, int sms, int arrays = 1);

}  // namespace gpk::ops::nn
