#include "ops/reduction/reduce.h"

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/output.h"
#include "ops/reduction/dtypes.h"
#include "ops/reduction/launch.h"

namespace gpk::ops {
namespace {

using namespace reduction;

struct Row {
  const char* name;
  ReduceRule rule;
  Functor functor;
  FinishMode mode;
  bool skip_nan;
};

constexpr Row kRows[] = {
#define GPK_REDUCTION(name, rule, functor, finish, elements, doc)    \
  {#name, ReduceRule::rule, Functor::k##functor, FinishMode::finish, \
   Elements::elements == Elements::kNotNan},
#define GPK_SCAN(name, functor, elements, doc)
#include "ops/reduction/ops.def"
};

const Row& row_of(OpId op) {
  const auto index = static_cast<std::size_t>(op) - static_cast<std::size_t>(OpId::sum);
  if (index >= std::size(kRows)) throw Error(cat("reduce: ", name(op), " is not a reduction"));
  return kRows[index];
}

bool is_fold(const Row& row) { return row.rule == ReduceRule::kFold; }
bool is_mean(const Row& row) { return row.rule == ReduceRule::kMean; }
bool is_variance(const Row& row) { return row.rule == ReduceRule::kVariance; }
bool is_arg(const Row& row) { return row.rule == ReduceRule::kIndex; }
bool is_extreme(const Row& row) { return row.rule == ReduceRule::kExtreme; }

void check_mean_dtype(const Row& row, std::optional<DType> asked) {
  if ((is_mean(row) || is_variance(row)) && asked && class_of(*asked) == ResultClass::kInteger)
    throw InvalidArgument(InvalidArgument::Kind::kType, cat(row.name, ": dtype is ", name(*asked),
                                                            ", expected a floating dtype"));
}

// Bit i: axis i is reduced.
std::uint32_t check_axes(const Row& row, const Array& x, const std::optional<Dims>& axes) {
  if (!axes) return static_cast<std::uint32_t>((std::uint64_t{1} << x.ndim()) - 1);
  // As in NumPy, whose ufuncs see a 0-d array as one with a single axis; means are no ufuncs.
  const bool lenient = !is_mean(row) && !is_variance(row);
  if (lenient && x.ndim() == 0 && axes->size() == 1 && ((*axes)[0] == 0 || (*axes)[0] == -1))
    return 0;
  std::uint32_t mask = 0;
  for (const std::int64_t axis : normalize_axes(*axes, x.ndim(), row.name))
    mask |= std::uint32_t{1} << axis;
  return mask;
}

void check_not_empty(const Row& row, const Array& x, std::uint32_t axes) {
  if (!is_arg(row) && !is_extreme(row)) return;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    if ((axes >> axis & 1u) == 0 || x.shape()[axis] != 0) continue;
    throw InvalidArgument(is_arg(row)
                              ? cat(row.name, ": attempt to get ", row.name,
                                    " of an empty sequence, x has shape ", to_string(x.shape()))
                              : cat(row.name, ": zero-size array to reduction operation ", row.name,
                                    " which has no identity, x has shape ", to_string(x.shape())));
  }
}

Dims result_shape(const Array& x, std::uint32_t axes, bool keepdims) {
  Dims shape = Dims::filled(x.ndim(), 1);
  int count = 0;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    const bool reduced = (axes >> axis & 1u) != 0;
    if (reduced && !keepdims) continue;
    shape[count++] = reduced ? 1 : x.shape()[axis];
  }
  return Dims(shape.span().first(static_cast<std::size_t>(count)));
}

// `out` without the axes that keepdims left in it.
Array without_axes(const Array& out, std::uint32_t axes, bool keepdims) {
  if (!keepdims) return out;
  Dims gone = Dims::filled(0, 0);
  std::int64_t list[kMaxRank];
  std::size_t count = 0;
  for (int axis = 0; axis < out.ndim(); ++axis)
    if ((axes >> axis & 1u) != 0) list[count++] = axis;
  gone = Dims(std::span<const std::int64_t>(list, count));
  return squeeze(out, gone, "reduce");
}

// What is computed, once the dtypes are settled: sums in bool are `any`, and so on.
struct Work {
  Array x;
  Functor functor;
  FinishMode mode;
};

Work prepare(const Row& row, const Array& x, DType result) {
  Work work{x, row.functor, row.mode};
  if (is_fold(row) && result == DType::kBool) {
    work.functor = Functor::kCount;
    work.mode = row.functor == Functor::kProd ? FinishMode::kAll : FinishMode::kAny;
    return work;
  }
  if (!is_fold(row) && !is_mean(row)) return work;
  if (!reads_directly(x.dtype(), result)) work.x = cast(x, result, row.name);
  return work;
}

void run_on_gpu(const Row& row, const Array& x, std::uint32_t axes, DType result, const Array& out,
                double correction) {
  const Work work = prepare(row, x, result);
  const bool direct = class_of(out.dtype()) == class_of(result) && !may_overlap(out, work.x);
  const Array target = direct ? out : Array::empty(out.shape(), result, out.device(), row.name);
  launch_reduce({row.name, work.functor, work.mode, row.skip_nan, is_arg(row), correction}, work.x,
                axes, target);
  if (!direct) copy_into(out, target, row.name);
}

CpuCall cpu_call(const Row& row, const Array& x, std::uint32_t axes, DType result, const Array& out,
                 double correction) {
  std::int64_t list[kMaxRank];
  std::size_t count = 0;
  for (int axis = 0; axis < x.ndim(); ++axis)
    if ((axes >> axis & 1u) != 0) list[count++] = axis;
  CpuCall call{row.name, {x}, {out}};
  call.options.emplace_back("axis", Dims(std::span<const std::int64_t>(list, count)));
  if (is_fold(row) || is_mean(row)) call.options.emplace_back("dtype", result);
  if (is_variance(row)) call.options.emplace_back("correction", Scalar(correction));
  return call;
}

}  // namespace

DType reduction::reduce_dtype(OpId op, DType in, std::optional<DType> asked) {
  const Row& row = row_of(op);
  if (is_fold(row)) return fold_dtype(in, asked);
  const bool integer = class_of(in) == ResultClass::kInteger;
  if (is_mean(row)) return asked.value_or(integer ? DType::kFloat64 : in);
  if (is_variance(row)) return real_part_of(asked.value_or(integer ? DType::kFloat64 : in));
  if (row.rule == ReduceRule::kTest) return DType::kBool;
  return is_extreme(row) ? in : DType::kInt64;
}

Array reduce(OpId op, const Array& x, const ReduceOptions& options) {
  const Row& row = row_of(op);
  check_dtypes(row.name, x, options.dtype);
  check_mean_dtype(row, options.dtype);
  const std::uint32_t axes = check_axes(row, x, options.axes);
  check_not_empty(row, x, axes);
  const DType dtype = reduce_dtype(op, x.dtype(), options.dtype);
  const Dims shape = result_shape(x, axes, options.keepdims);
  if (options.out) check_out(*options.out, shape, dtype, x.device(), row.name);
  const Array out = options.out ? *options.out : Array::empty(shape, dtype, x.device(), row.name);
  if (out.size() == 0) return out;
  const Array target = without_axes(out, axes, options.keepdims);
  const Array elements =
      row.skip_nan && is_fold(row) ? before_cast(x, dtype, row.functor == Functor::kProd) : x;
  if (x.device().is_cuda()) {
    run_on_gpu(row, elements, axes, dtype, target, options.correction);
  } else {
    run_on_cpu(cpu_call(row, elements, axes, dtype, target, options.correction));
  }
  return out;
}

}  // namespace gpk::ops
