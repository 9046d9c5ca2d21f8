#include "ops/nn/rows.h"

#include <algorithm>
#include <bit>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/round_up.h"
#include "base/text.h"
#include "core/view.h"
#include "kernels/args/nn.h"
#include "ops/checks.h"
#include "ops/elementwise/copy.h"
#include "ops/output.h"

namespace gpk::ops::nn {
namespace {

using kernels::kMaxRowGroup;
using kernels::kRowBlock;

constexpr std::int64_t kAccessBytes = 16;
constexpr std::int64_t kWarp = 32;
constexpr int kThreadsAhead = 640;  // of a multiprocessor

// A whole warp or a power of two of its threads, `accesses` accesses each.
int group_for(std::int64_t num_accesses, int accesses) {
  const std::int64_t threads = ceil_div(num_accesses, accesses);
  if (threads > kWarp) return static_cast<int>(round_up(threads, kWarp));
  return static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max(threads, std::int64_t{1}))));
}

int block_size(const RowPlan& plan) { return plan.group <= kWarp ? kRowBlock : plan.group; }

// Of rows fetched ahead.
std::size_t shared_bytes(const RowPlan& plan, int arrays) {
  if (plan.vec == 1 || plan.accesses == 0) return 0;
  const int stages = arrays == 1 ? kernels::kRowStages<1> : kernels::kRowStages<2>;
  return static_cast<std::size_t>(stages * arrays * plan.accesses * block_size(plan)) *
         static_cast<std::size_t>(kAccessBytes);
}

bool is_aligned(const Array& array) {
  return reinterpret_cast<std::uintptr_t>(array.data()) % kAccessBytes == 0;
}

}  // namespace

std::optional<Rows> try_rows(const Array& array) {
  const int last = array.ndim() - 1;
  if (last < 0) return std::nullopt;
  const Dims& shape = array.shape();
  const Dims& strides = array.strides();
  const std::int64_t width = shape[last];
  if (array.size() == 0) return Rows{array, 0, width, width};
  if (width > 1 && strides[last] != 1) return std::nullopt;
  Rows result{array, array.size() / width, width, width};
  std::int64_t expected = -1;  // stride of the next larger axis; -1: any
  for (int axis = last - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (expected < 0) {
      result.stride = strides[axis];
    } else if (strides[axis] != expected) {
      return std::nullopt;
    }
    expected = strides[axis] * shape[axis];
  }
  return result;
}

Rows rows_of(const Array& array, const char* op) {
  if (auto rows = try_rows(array)) return *rows;
  return *try_rows(contiguous(array, op));
}

void check_float(const Array& array, const char* argument, const char* op) {
  const DType dtype = array.dtype();
  if (dtype != DType::kFloat16 && dtype != DType::kBFloat16 && dtype != DType::kFloat32)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": ", argument, " has dtype ", name(dtype),
                              ", expected float16, bfloat16 or float32"));
}

void check_rows(const Array& array, const char* argument, int ndim, const char* op) {
  check_float(array, argument, op);
  if (array.ndim() < ndim)
    throw InvalidArgument(cat(op, ": ", argument, " has shape ", to_string(array.shape()),
                              ", expected at least ", ndim,
                              ndim == 1 ? " dimension" : " dimensions"));
  if (array.shape()[array.ndim() - 1] > kMaxRowWidth)
    throw InvalidArgument(cat(op, ": ", argument, " has shape ", to_string(array.shape()),
                              ", expected at most 2**31 - 2**16 elements along the last axis"));
}

void check_like(const Array& x, const Array& other, const char* argument, const char* op) {
  if (!(other.shape() == x.shape()))
    throw InvalidArgument(cat(op, ": ", argument, " has shape ", to_string(other.shape()),
                              ", x has ", to_string(x.shape())));
  check_same_dtype(other, argument, x, "x", op);
  check_device(other, argument, x.device(), "x", op);
}

void check_weight(const Array& x, const std::optional<Array>& weight, const Dims& shape,
                  const char* argument, const char* op) {
  if (!weight) return;
  if (!(weight->shape() == shape))
    throw InvalidArgument(cat(op, ": ", argument, " has shape ", to_string(weight->shape()),
                              ", expected ", to_string(shape), " for x of shape ",
                              to_string(x.shape())));
  if (weight->dtype() != x.dtype() && weight->dtype() != DType::kFloat32)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": ", argument, " has dtype ", name(weight->dtype()),
                              ", expected ", name(x.dtype()), " (as x) or float32"));
  check_device(*weight, argument, x.device(), "x", op);
}

bool takes_rows(const Array& out, DType dtype, std::initializer_list<const Array*> inputs) {
  if (out.dtype() != dtype || !try_rows(out)) return false;
  return std::all_of(inputs.begin(), inputs.end(), [&](const Array* input) {
    return input == nullptr || same_place(out, *input) || !may_overlap(out, *input);
  });
}

RowPlan plan_rows(std::int64_t width, std::size_t itemsize, bool aligned) {
  const std::int64_t wide = kAccessBytes / static_cast<std::int64_t>(itemsize);
  RowPlan plan;
  plan.vec = aligned && width % wide == 0 ? static_cast<int>(wide) : 1;
  const std::int64_t num_accesses = ceil_div(width, plan.vec);
  for (const int accesses : {4, 8}) {
    plan.accesses = accesses;
    plan.group = group_for(num_accesses, accesses);
    if (plan.group <= kMaxRowGroup) return plan;
    if (plan.vec == 1) break;  // rows of odd widths are rare
  }
  plan.accesses = 0;
  plan.group = kMaxRowGroup;
  return plan;
}

RowPlan fit_rows(const RowPlan& plan, int arrays, std::size_t shared_limit) {
  constexpr std::size_t kOther = 2048;  // sums, and what alignment takes
  if (shared_bytes(plan, arrays) + kOther <= shared_limit) return plan;
  return {plan.vec, 0, kMaxRowGroup};
}

RowPlan general_plan(std::int64_t width) {
  return {1, 0, std::min(group_for(width, 4), kMaxRowGroup)};
}

std::string to_string(const RowPlan& plan) {
  return cat("rows(vec=", plan.vec, ", accesses=", plan.accesses, ", group=", plan.group, ")");
}

bool is_aligned(std::initializer_list<const Rows*> rows) {
  return std::all_of(rows.begin(), rows.end(), [](const Rows* of) {
    return of == nullptr ||
           (is_aligned(of->array) &&
            of->stride * static_cast<std::int64_t>(itemsize(of->array.dtype())) % kAccessBytes ==
                0);
  });
}

bool is_aligned(const std::optional<Array>& array) { return !array || is_aligned(*array); }

LaunchConfig row_grid(std::int64_t rows, const RowPlan& plan, int sms, int arrays) {
  LaunchConfig config;
  const bool several = plan.group <= kWarp;
  const int threads = block_size(plan);
  const std::int64_t blocks = several ? ceil_div(rows, kRowBlock / plan.group) : rows;
  config.shared_bytes = shared_bytes(plan, arrays);
  // Those that fetch ahead are persistent, with up to 128 registers.
  const std::int64_t resident = std::int64_t{std::max(1, kThreadsAhead / threads)} * sms;
  config.grid[0] =
      static_cast<unsigned>(config.shared_bytes > 0 ? std::min(blocks, resident) : blocks);
  config.block[0] = static_cast<unsigned>(threads);
  return config;
}

}  // namespace gpk::ops::nn
