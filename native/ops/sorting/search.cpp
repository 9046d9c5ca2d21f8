#include "ops/sorting/search.h"

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "kernels/args/sorting.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/sorting/gather.h"
#include "ops/sorting/kernels.h"
#include "ops/sorting/row_sort.h"
#include "ops/sorting/rows.h"
#include "ops/sorting/sort.h"

namespace gpk::ops {
namespace {

using namespace sorting;

using kernels::SearchMode;

struct Search {
  SearchMode mode = SearchMode::kLeft;
  bool invert = false;
  bool by_data = false;  // the table may be in descending order
  std::optional<Array> sorter = {};
};

// `table` and `queries` contiguous, of one dtype; out contiguous, of the queries' shape.
void launch_search(const Array& table, const Array& queries, const Array& out,
                   const Search& search) {
  const DType dtype = table.dtype();
  const DType part = real_part_of(dtype);
  kernels::SearchArgs args{};
  args.table = address(table);
  args.sorter = address(search.sorter);
  args.queries = address(queries);
  args.out = address(out);
  args.n = table.size();
  args.num_queries = queries.size();
  args.mode = search.mode;
  args.invert = search.invert ? 1 : 0;
  args.by_data = search.by_data ? 1 : 0;
  args.order = key_order(part);
  void* params[] = {&args};
  submit_loop(sorting_kernel(out.device(), SortingKernel::kSearch,
                             {width_bits(part), 0, is_complex(dtype)}),
              queries.size(), 256,
              {&table, &queries, &out, search.sorter ? &*search.sorter : nullptr}, params);
}

Array as_dtype(const Array& array, DType dtype, const char* op) {
  return array.dtype() == dtype ? contiguous(array, op) : cast(array, dtype, op);
}

void check_table(const Array& table, const char* argument, const char* op) {
  check_compute_dtype(table, argument, op);
  if (table.ndim() != 1)
    throw InvalidArgument(cat(op, ": ", argument, " has shape ", to_string(table.shape()),
                              ", expected one dimension"));
}

void check_sorter(const std::optional<Array>& sorter, const Array& x1) {
  if (!sorter) return;
  if (!is_integer(sorter->dtype()))
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat("searchsorted: sorter has dtype ", name(sorter->dtype()), ", expected integers"));
  if (!(sorter->shape() == x1.shape()))
    throw InvalidArgument(cat("searchsorted: sorter has shape ", to_string(sorter->shape()),
                              ", x1 has shape ", to_string(x1.shape())));
  check_device(x1, "x1", sorter->device(), "sorter", "searchsorted");
}

}  // namespace

Array searchsorted(const Array& x1, const Array& x2, Side side,
                   const std::optional<Array>& sorter) {
  constexpr const char* op = "searchsorted";
  check_table(x1, "x1", op);
  check_compute_dtype(x2, "x2", op);
  check_device(x1, "x1", x2.device(), "x2", op);
  check_sorter(sorter, x1);
  const DType dtype = promote_types(x1.dtype(), x2.dtype(), op);
  Array out = Array::empty(x2.shape(), DType::kInt64, x2.device(), op);
  if (out.size() == 0) return out;
  if (!out.device().is_cuda()) {
    run_on_cpu({op,
                {as_dtype(x1, dtype, op), as_dtype(x2, dtype, op)},
                {out},
                {{"side", std::string(side == Side::kLeft ? "left" : "right")},
                 {"sorter", cpu_optional(sorter)}}});
    return out;
  }
  Search search{side == Side::kLeft ? SearchMode::kLeft : SearchMode::kRight};
  if (sorter) search.sorter = as_dtype(*sorter, DType::kInt64, op);
  launch_search(as_dtype(x1, dtype, op), as_dtype(x2, dtype, op), out, search);
  return out;
}

Array digitize(const Array& x, const Array& bins, bool right) {
  constexpr const char* op = "digitize";
  check_table(bins, "bins", op);
  check_compute_dtype(x, "x", op);
  if (is_complex(x.dtype()) || is_complex(bins.dtype()))
    throw InvalidArgument(InvalidArgument::Kind::kType, cat(op, ": x may not be complex"));
  check_device(x, "x", bins.device(), "bins", op);
  const DType dtype = promote_types(x.dtype(), bins.dtype(), op);
  Array out = Array::empty(x.shape(), DType::kInt64, x.device(), op);
  if (out.size() == 0) return out;
  if (!out.device().is_cuda()) {
    run_on_cpu({op,
                {as_dtype(x, dtype, op), as_dtype(bins, dtype, op)},
                {out},
                {{"right", Scalar(right)}}});
    return out;
  }
  launch_search(as_dtype(bins, dtype, op), as_dtype(x, dtype, op), out,
                {right ? SearchMode::kLeft : SearchMode::kRight, false, true});
  return out;
}

Array isin(const Array& x, const Array& test_elements, bool invert, const char* op) {
  check_compute_dtype(x, "x1", op);
  check_compute_dtype(test_elements, "x2", op);
  check_device(x, "x1", test_elements.device(), "x2", op);
  const DType dtype = promote_types(x.dtype(), test_elements.dtype(), op);
  Array out = Array::empty(x.shape(), DType::kBool, x.device(), op);
  if (out.size() == 0) return out;
  if (test_elements.size() == 0) {
    fill(out, Scalar(invert), op);
    return out;
  }
  if (!out.device().is_cuda()) {
    run_on_cpu({"isin",
                {as_dtype(x, dtype, op), as_dtype(test_elements, dtype, op)},
                {out},
                {{"invert", Scalar(invert)}}});
    return out;
  }
  const Array table = sort(as_dtype(test_elements, dtype, op), std::nullopt);
  launch_search(table, as_dtype(x, dtype, op), out, {SearchMode::kOccurs, invert});
  return out;
}

Array gather_flat(const Array& x, const Array& index) {
  constexpr const char* op = "gather_1d";
  Array out = Array::empty(index.shape(), x.dtype(), x.device(), op);
  if (out.size() == 0) return out;
  if (!out.device().is_cuda()) {
    run_on_cpu({op, {x, index}, {out}});
    return out;
  }
  RowGather gather{contiguous(x, op), contiguous(index, op), 1,
                   x.size(),          index.size(),          index.size()};
  gather.out = out;
  gather_rows(gather);
  return out;
}

}  // namespace gpk::ops
