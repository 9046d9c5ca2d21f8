#include "ops/sorting/quantile.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "kernels/args/sorting.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/sorting/kernels.h"
#include "ops/sorting/row_sort.h"
#include "ops/sorting/rows.h"

namespace gpk::ops {
namespace {

using namespace sorting;

constexpr std::size_t kMaxQuantiles = kernels::QuantileArgs::kMaxQuantiles;

// x with the reduced axes last and flattened, and the remaining shape.
struct Reduced {
  Array rows;  // two-dimensional, contiguous
  Dims left;
};

Reduced reduce_axes(const Array& x, const std::optional<Dims>& given, bool keepdims,
                    const char* op) {
  const int ndim = x.ndim();
  Dims axes;
  if (given) axes = normalize_axes(*given, ndim, op);
  const auto is_reduced = [&](int axis) {
    return !given || std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  std::vector<std::int64_t> order, left, reduced;
  std::int64_t len = 1;
  std::int64_t num_rows = 1;
  for (int axis = 0; axis < ndim; ++axis) {
    const std::int64_t size = x.shape()[axis];
    (is_reduced(axis) ? reduced : order).push_back(axis);
    (is_reduced(axis) ? len : num_rows) *= size;
    if (!is_reduced(axis)) left.push_back(size);
    if (is_reduced(axis) && keepdims) left.push_back(1);
  }
  order.insert(order.end(), reduced.begin(), reduced.end());
  const Array moved = ndim == 0 ? x : permute(x, Dims(order), op);
  return {reshape(contiguous(moved, op), {num_rows, len}, op), Dims(left)};
}

DType result_dtype(const Array& x, bool wide) {
  return is_float(x.dtype()) && !wide ? x.dtype() : DType::kFloat64;
}

void check_quantile(const Array& x, const char* op) {
  check_compute_dtype(x, "x", op);
  if (is_complex(x.dtype()))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": x has dtype ", name(x.dtype()), ", expected real numbers"));
}

Array sorted_rows(const Array& rows, const char* op) {
  Array sorted = Array::empty(rows.shape(), rows.dtype(), rows.device(), op);
  RowSort sort{rows, rows.shape()[0], rows.shape()[1]};
  sort.keys_out = sorted;
  sort_rows(sort, op);
  return sorted;
}

// Results for q[first], ... to out, [num_q, rows]; no q: the median.
void launch_quantile(const Array& sorted, const double* q, std::size_t num_q, const Array& out) {
  kernels::QuantileArgs args{};
  args.data = address(sorted);
  args.out = address(out);
  args.rows = sorted.shape()[0];
  args.len = sorted.shape()[1];
  args.num_q = q == nullptr ? 1 : static_cast<std::int64_t>(num_q);
  args.code = static_cast<std::uint32_t>(sorted.dtype());
  args.out_code = static_cast<std::uint32_t>(out.dtype());
  args.median = q == nullptr ? 1 : 0;
  if (q != nullptr) std::copy_n(q, num_q, args.q);
  void* params[] = {&args};
  submit_loop(sorting_kernel(out.device(), SortingKernel::kQuantile), args.rows * args.num_q, 256,
              {&sorted, &out}, params);
}

Dims join(const Dims& a, const Dims& b) {
  std::vector<std::int64_t> sizes(a.begin(), a.end());
  sizes.insert(sizes.end(), b.begin(), b.end());
  return Dims(sizes);
}

}  // namespace

Array median(const Array& x, const std::optional<Dims>& axes, bool keepdims) {
  constexpr const char* op = "median";
  check_quantile(x, op);
  const Reduced reduced = reduce_axes(x, axes, keepdims, op);
  const std::int64_t num_rows = reduced.rows.shape()[0];
  Array out = Array::empty({num_rows}, result_dtype(x, false), x.device(), op);
  if (num_rows > 0) {
    if (reduced.rows.shape()[1] == 0)
      fill(out, Scalar(std::numeric_limits<double>::quiet_NaN()), op);
    else if (x.device().is_cuda())
      launch_quantile(sorted_rows(reduced.rows, op), nullptr, 0, out);
    else
      run_on_cpu({op, {reduced.rows}, {out}});
  }
  return reshape(out, reduced.left, op);
}

Array quantile(const Array& x, const std::vector<double>& q, const Dims& q_shape, bool wide,
               const std::optional<Dims>& axes, bool keepdims, const char* op) {
  check_quantile(x, op);
  for (const double fraction : q)
    if (!(fraction >= 0.0 && fraction <= 1.0))
      throw InvalidArgument(
          cat(op, ": q is out of range, expected 0 to ", op[0] == 'p' ? "100" : "1"));
  const Reduced reduced = reduce_axes(x, axes, keepdims, op);
  const std::int64_t num_rows = reduced.rows.shape()[0];
  if (reduced.rows.shape()[1] == 0)
    throw InvalidArgument(
        InvalidArgument::Kind::kIndex,
        cat(op, ": no elements along the axis, x has shape ", to_string(x.shape())));
  const auto num_q = static_cast<std::int64_t>(q.size());
  Array out = Array::empty({num_q, num_rows}, result_dtype(x, wide), x.device(), op);
  if (out.size() > 0 && x.device().is_cuda()) {
    const Array sorted = sorted_rows(reduced.rows, op);
    for (std::size_t first = 0; first < q.size(); first += kMaxQuantiles) {
      const std::size_t count = std::min(kMaxQuantiles, q.size() - first);
      launch_quantile(sorted, q.data() + first, count,
                      slice_axis(out, 0, static_cast<std::int64_t>(first),
                                 static_cast<std::int64_t>(count), 1));
    }
  } else if (out.size() > 0) {
    const Array fractions = Array::empty({num_q}, DType::kFloat64, x.device(), op);
    std::memcpy(fractions.data(), q.data(), q.size() * sizeof(double));
    run_on_cpu({"quantile", {reduced.rows, fractions}, {out}});
  }
  return reshape(out, join(q_shape, reduced.left), op);
}

}  // namespace gpk::ops
