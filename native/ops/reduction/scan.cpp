#include "ops/reduction/scan.h"

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/output.h"
#include "ops/reduction/dtypes.h"
#include "ops/reduction/rules.h"
#include "ops/reduction/scan_launch.h"

namespace gpk::ops {
namespace {

using namespace reduction;

struct Row {
  bool product;
  bool skip_nan;
};

constexpr Row kRows[] = {
#define GPK_REDUCTION(name, rule, functor, finish, elements, doc)
#define GPK_SCAN(name, functor, elements, doc) \
  {Functor::k##functor == Functor::kProd, Elements::elements == Elements::kNotNan},
#include "ops/reduction/ops.def"
};

const Row& row_of(OpId op) {
  const auto index = static_cast<std::size_t>(op) - static_cast<std::size_t>(OpId::cumsum);
  if (index >= std::size(kRows)) throw Error(cat("scan: ", name(op), " is not a scan"));
  return kRows[index];
}

// The array that is scanned, and along which axis: 0-d arrays as one row, no axis: flattened.
Array scanned(const char* op, const Array& x, std::optional<std::int64_t> axis, int& along) {
  along = 0;
  if (x.ndim() == 0) {
    if (axis) normalize_axis(*axis, 1, op);
    return expand_dims(x, {0}, op);
  }
  if (!axis) return x.ndim() == 1 ? x : reshape(x, {-1}, op);
  along = normalize_axis(*axis, x.ndim(), op);
  return x;
}

void scan_on_gpu(const char* op, const Row& row, const Array& x, int axis, DType dtype,
                 bool include_initial, const Array& out) {
  const Array in = reads_directly(x.dtype(), dtype) ? x : cast(x, dtype, op);
  const bool apart = !may_overlap(in, out) || (same_place(in, out) && !include_initial);
  const bool direct = class_of(out.dtype()) == class_of(dtype) && apart;
  const Array target = direct ? out : Array::empty(out.shape(), dtype, out.device(), op);
  launch_scan({op, row.product, row.skip_nan, include_initial}, in, axis, target);
  if (!direct) copy_into(out, target, op);
}

}  // namespace

Array scan(OpId id, const Array& x, const ScanOptions& options) {
  const Row& which = row_of(id);
  const char* op = options.alias != nullptr ? options.alias : name(id);
  check_dtypes(op, x, options.dtype);
  if (x.ndim() > 0 && options.axis) normalize_axis(*options.axis, x.ndim(), op);
  const DType dtype = fold_dtype(x.dtype(), options.dtype);
  Dims shape = x.ndim() == 0 || !options.axis ? Dims{x.size()} : x.shape();
  int along = x.ndim() == 0 || !options.axis ? 0 : normalize_axis(*options.axis, x.ndim(), op);
  if (options.include_initial) ++shape[along];
  if (options.out) check_out(*options.out, shape, dtype, x.device(), op);
  const Array elements = which.skip_nan ? before_cast(x, dtype, which.product) : x;
  const Array row = scanned(op, elements, options.axis, along);
  const Array out = options.out ? *options.out : Array::empty(shape, dtype, x.device(), op);
  if (out.size() == 0) return out;
  if (x.device().is_cuda()) {
    scan_on_gpu(op, which, row, along, dtype, options.include_initial, out);
  } else {
    CpuCall call{name(id), {row}, {out}};
    call.options.emplace_back("axis", Scalar(std::int64_t{along}));
    call.options.emplace_back("dtype", dtype);
    call.options.emplace_back("include_initial", Scalar(options.include_initial));
    run_on_cpu(std::move(call));
  }
  return out;
}

}  // namespace gpk::ops
