#include "ops/sorting/sort.h"

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/output.h"
#include "ops/sorting/gather.h"
#include "ops/sorting/row_sort.h"
#include "ops/sorting/rows.h"

namespace gpk::ops {
namespace {

using namespace sorting;

// The array to sort and its axis; flattened where there is no axis.
struct SortArgs {
  Array x;
  int axis;
};

SortArgs check_sort(const Array& x, OptionalAxis axis, const char* op) {
  check_compute_dtype(x, "x", op);
  if (!axis) return {flatten(x, op), 0};
  return {x, normalize_axis(*axis, x.ndim(), op)};
}

Scalar axis_scalar(int axis) { return Scalar(static_cast<std::int64_t>(axis)); }

// True when rows can be written directly to `out`.
bool takes_rows(const Array& out, DType dtype, const Array& keys, int axis) {
  return out.dtype() == dtype && out.is_contiguous() && axis == out.ndim() - 1 &&
         !may_overlap(out, keys);
}

// Runs `sort` with the result in `out`, through a temporary where necessary.
template <class Run>
void into_rows(const Array& out, DType dtype, const Rows& rows, const char* op, const Run& run) {
  if (takes_rows(out, dtype, rows.data, rows.axis)) {
    run(out);
    return;
  }
  const Array result = Array::empty(rows.shape, dtype, out.device(), op);
  run(result);
  copy_into(axis_last(out, rows.axis, op), result, op);
}

void check_kth(const Dims& kth, const Array& x, int axis, const char* op) {
  const std::int64_t len = x.shape()[axis];
  for (const std::int64_t k : kth)
    if (len > 0 && (k < -len || k >= len))
      throw InvalidArgument(cat(op, ": kth is ", k, ", out of bounds for size ", len));
}

// Which result of a sort is asked for.
struct SortResult {
  const char* reference;  // the op on the CPU
  const char* op;         // in messages
  DType dtype;
  std::optional<Array> RowSort::* member;
};

Array sort_into(const SortResult& wanted, const Array& x, OptionalAxis axis, bool descending,
                const std::optional<Array>& given) {
  const char* const op = wanted.op;
  const SortArgs args = check_sort(x, axis, op);
  if (given) check_out(*given, args.x.shape(), wanted.dtype, x.device(), op);
  const Array out = given ? *given : Array::empty(args.x.shape(), wanted.dtype, x.device(), op);
  if (out.size() == 0) return out;
  if (!out.device().is_cuda()) {
    run_on_cpu({wanted.reference,
                {args.x},
                {out},
                {{"axis", axis_scalar(args.axis)}, {"descending", Scalar(descending)}}});
    return out;
  }
  const Rows rows = rows_along(args.x, args.axis, op);
  into_rows(out, wanted.dtype, rows, op, [&](const Array& result) {
    RowSort sort{rows.data, rows.rows, rows.len, descending};
    sort.*wanted.member = result;
    sort_rows(sort, op);
  });
  return out;
}

}  // namespace

Array sort(const Array& x, OptionalAxis axis, bool descending, const std::optional<Array>& out,
           const char* op) {
  return sort_into({"sort", op, x.dtype(), &RowSort::keys_out}, x, axis, descending, out);
}

Array argsort(const Array& x, OptionalAxis axis, bool descending, const std::optional<Array>& out,
              const char* op) {
  return sort_into({"argsort", op, DType::kInt64, &RowSort::positions_out}, x, axis, descending,
                   out);
}

Array partition(const Array& x, const Dims& kth, OptionalAxis axis) {
  const SortArgs args = check_sort(x, axis, "partition");
  check_kth(kth, args.x, args.axis, "partition");
  return sort(args.x, args.axis, false, std::nullopt, "partition");
}

Array argpartition(const Array& x, const Dims& kth, OptionalAxis axis) {
  const SortArgs args = check_sort(x, axis, "argpartition");
  check_kth(kth, args.x, args.axis, "argpartition");
  return argsort(args.x, args.axis, false, std::nullopt, "argpartition");
}

std::pair<Array, Array> topk(const Array& x, std::int64_t k, std::int64_t axis, bool largest) {
  constexpr const char* op = "topk";
  const SortArgs args = check_sort(x, axis, op);
  const std::int64_t len = x.shape()[args.axis];
  if (k < 0 || k > len)
    throw InvalidArgument(cat(op, ": k is ", k, ", axis ", axis, " has size ", len));
  Dims shape = x.shape();
  shape[args.axis] = k;
  Array values = Array::empty(shape, x.dtype(), x.device(), op);
  Array indices = Array::empty(shape, DType::kInt64, x.device(), op);
  if (values.size() == 0) return {values, indices};
  if (!x.device().is_cuda()) {
    run_on_cpu({op,
                {x},
                {values, indices},
                {{"axis", axis_scalar(args.axis)}, {"largest", Scalar(largest)}}});
    return {values, indices};
  }
  const Rows rows = rows_along(x, args.axis, op);
  RowSort sort{rows.data, rows.rows, rows.len, largest};
  sort.positions_out =
      Array::empty({rows.rows * rows.len}, position_dtype(rows.len), x.device(), op);
  sort_rows(sort, op);
  Dims row_shape = rows.shape;
  row_shape[row_shape.size() - 1] = k;
  const bool in_place = args.axis == x.ndim() - 1;
  RowGather gather{rows.data, *sort.positions_out, rows.rows, len, len, k};
  gather.out = in_place ? values : Array::empty(row_shape, x.dtype(), x.device(), op);
  gather.index_out = in_place ? indices : Array::empty(row_shape, DType::kInt64, x.device(), op);
  gather_rows(gather);
  if (!in_place) {
    copy_into(axis_last(values, args.axis, op), *gather.out, op);
    copy_into(axis_last(indices, args.axis, op), *gather.index_out, op);
  }
  return {values, indices};
}

Array lexsort(const std::vector<Array>& keys, std::int64_t given_axis) {
  constexpr const char* op = "lexsort";
  if (keys.empty())
    throw InvalidArgument(InvalidArgument::Kind::kType, cat(op, ": needs at least one key"));
  for (const Array& key : keys) {
    check_compute_dtype(key, "keys", op);
    check_device(keys[0], "the first key", key.device(), "another", op);
    if (!(key.shape() == keys[0].shape()))
      throw InvalidArgument(cat(op, ": keys of shapes ", to_string(keys[0].shape()), " and ",
                                to_string(key.shape()), ", expected equal ones"));
  }
  const int axis = normalize_axis(given_axis, keys[0].ndim(), op);
  Array out = Array::empty(keys[0].shape(), DType::kInt64, keys[0].device(), op);
  if (out.size() == 0) return out;
  if (!out.device().is_cuda()) {
    CpuCall call{op, {}, {out}, {{"axis", axis_scalar(axis)}}};
    for (const Array& key : keys) call.args.emplace_back(key);
    run_on_cpu(std::move(call));
    return out;
  }
  std::optional<Array> index;
  for (const Array& key : keys) {
    const Rows rows = rows_along(key, axis, op);
    RowSort sort{rows.data, rows.rows, rows.len};
    if (index) {
      RowGather gather{rows.data, *index, rows.rows, rows.len, rows.len, rows.len};
      sort.keys = Array::empty({key.size()}, key.dtype(), key.device(), op);
      gather.out = sort.keys;
      gather_rows(gather);
      sort.positions = index;
    }
    sort.positions_out = Array::empty(rows.shape, position_dtype(rows.len), key.device(), op);
    sort_rows(sort, op);
    index = sort.positions_out;
  }
  copy_into(axis_last(out, axis, op), *index, op);
  return out;
}

}  // namespace gpk::ops
