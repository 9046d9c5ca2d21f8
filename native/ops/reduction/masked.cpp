#include "ops/reduction/masked.h"

#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/fill.h"
#include "ops/output.h"

namespace gpk::ops {
namespace {

enum class Kind : std::uint8_t {
  kSum,
  kProduct,
  kLargest,
  kSmallest,
  kAny,
  kAll,
  kMean,
  kVariance
};

struct Traits {
  Kind kind;
  bool skip_nan = false;
  bool root = false;  // standard deviations
};

std::optional<Traits> traits_of(OpId op) {
  switch (op) {
    case OpId::sum: return Traits{Kind::kSum};
    case OpId::nansum: return Traits{Kind::kSum, true};
    case OpId::prod: return Traits{Kind::kProduct};
    case OpId::nanprod: return Traits{Kind::kProduct, true};
    case OpId::max: return Traits{Kind::kLargest};
    case OpId::nanmax: return Traits{Kind::kLargest, true};
    case OpId::min: return Traits{Kind::kSmallest};
    case OpId::nanmin: return Traits{Kind::kSmallest, true};
    case OpId::any: return Traits{Kind::kAny};
    case OpId::all: return Traits{Kind::kAll};
    case OpId::mean: return Traits{Kind::kMean};
    case OpId::nanmean: return Traits{Kind::kMean, true};
    case OpId::var: return Traits{Kind::kVariance};
    case OpId::nanvar: return Traits{Kind::kVariance, true};
    case OpId::std: return Traits{Kind::kVariance, false, true};
    case OpId::nanstd: return Traits{Kind::kVariance, true, true};
    default: return std::nullopt;
  }
}

bool is_extreme(Kind kind) { return kind == Kind::kLargest || kind == Kind::kSmallest; }

Array checked_mask(const Array& x, const Array& where, const char* op) {
  if (where.dtype() != DType::kBool)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": where has dtype ", name(where.dtype()), ", expected bool"));
  if (!(where.device() == x.device()))
    throw InvalidArgument(
        cat(op, ": where is on ", to_string(where.device()), ", x on ", to_string(x.device())));
  try {
    return broadcast_to(where, x.shape(), op);
  } catch (const InvalidArgument&) {
    throw InvalidArgument(cat(op, ": where has shape ", to_string(where.shape()),
                              ", which does not broadcast to x's, ", to_string(x.shape())));
  }
}

// The elements with those that are not selected replaced by a value that changes nothing.
Array select(const Array& mask, const Array& x, const Scalar& neutral) {
  return where(mask, x, neutral);
}

Scalar neutral_of(Kind kind, DType dtype) {
  const bool one = kind == Kind::kProduct || kind == Kind::kAll;
  if (dtype == DType::kBool) return Scalar(one);
  return Scalar(std::int64_t{one ? 1 : 0});
}

ReduceOptions without_out(const ReduceOptions& options, std::optional<DType> dtype) {
  ReduceOptions result = options;
  result.out = std::nullopt;
  result.dtype = dtype;
  return result;
}

// `result` cast to `dtype`, or in the caller's `out`.
Array deliver(const Array& result, DType dtype, const std::optional<Array>& out, const char* op) {
  if (!out) return cast(result, dtype, op);
  copy_into(*out, result, op);
  return *out;
}

Array combine(const Traits& traits, const Array& value, const Scalar& initial) {
  switch (traits.kind) {
    case Kind::kSum: return add(value, initial);
    case Kind::kProduct: return multiply(value, initial);
    case Kind::kLargest: return traits.skip_nan ? fmax(value, initial) : maximum(value, initial);
    default: return traits.skip_nan ? fmin(value, initial) : minimum(value, initial);
  }
}

// Sums, products, extremes and tests: one reduction of the elements with the others replaced.
Array reduce_selected(OpId op, const Traits& traits, const Array& x, const MaskedReduction& request,
                      DType dtype) {
  const char* op_name = name(op);
  Array elements = x;
  if (request.where) {
    const Array mask = checked_mask(x, *request.where, op_name);
    if (is_extreme(traits.kind) && !request.initial)
      throw InvalidArgument(cat(op_name, ": where without initial: of no elements there is no ",
                                op_name, ", so one is needed to start from"));
    elements = select(
        mask, x, is_extreme(traits.kind) ? *request.initial : neutral_of(traits.kind, x.dtype()));
  }
  if (!request.initial) return reduce(op, elements, request.options);
  const ReduceOptions options = without_out(request.options, request.options.dtype);
  if (is_extreme(traits.kind) && x.size() == 0) {
    const Dims shape = reduce(OpId::count_nonzero, x, options).shape();
    const Array started = full(shape, *request.initial, dtype, x.device(), op_name);
    return deliver(started, dtype, request.options.out, op_name);
  }
  const Array result = combine(traits, reduce(op, elements, options), *request.initial);
  return deliver(result, dtype, request.options.out, op_name);
}

// In double precision, like the kernels of all elements.
struct Selected {
  Array elements;  // the others are zero
  Array mask;
  Array count;  // as float64
};

Selected select_wide(const Traits& traits, const Array& x, const Array& given,
                     const ReduceOptions& options, const char* op) {
  const DType wide = is_complex(x.dtype()) ? DType::kComplex128 : DType::kFloat64;
  Array mask = checked_mask(x, given, op);
  if (traits.skip_nan && (is_float(x.dtype()) || is_complex(x.dtype())))
    mask = logical_and(mask, logical_not(isnan(x)));
  const Array elements = select(mask, cast(x, wide, op), Scalar(std::int64_t{0}));
  const Array count = reduce(OpId::count_nonzero, mask, without_out(options, std::nullopt));
  return {elements, mask, cast(count, DType::kFloat64, op)};
}

Array masked_mean(const Selected& selected, const ReduceOptions& options) {
  const Array total =
      reduce(OpId::sum, selected.elements, without_out(options, selected.elements.dtype()));
  return divide(total, selected.count);
}

Array masked_variance(const Traits& traits, const Selected& selected,
                      const ReduceOptions& options) {
  ReduceOptions kept = without_out(options, std::nullopt);
  kept.keepdims = true;
  const Array kept_count =
      cast(reduce(OpId::count_nonzero, selected.mask, kept), DType::kFloat64, "var");
  const Array mean = masked_mean({selected.elements, selected.mask, kept_count}, kept);
  const Array distance = abs(subtract(selected.elements, mean));
  const Array squares = select(selected.mask, square(distance), Scalar(std::int64_t{0}));
  const Array total = reduce(OpId::sum, squares, without_out(options, DType::kFloat64));
  const Array free = maximum(subtract(selected.count, Scalar(options.correction)), Scalar(0.0));
  const Scalar nan = std::numeric_limits<double>::quiet_NaN();
  Array result = where(equal(selected.count, Scalar(0.0)), nan, divide(total, free));
  if (traits.skip_nan) result = where(equal(free, Scalar(0.0)), nan, result);
  return traits.root ? sqrt(result) : result;
}

// Before anything is launched.
void check_initial(const Traits& traits, const MaskedReduction& request, DType dtype,
                   const char* op) {
  if (!request.initial) return;
  if (traits.kind > Kind::kSmallest)
    throw InvalidArgument(InvalidArgument::Kind::kType, cat(op, ": there is no initial"));
  to_bytes(*request.initial, dtype, op);
}

}  // namespace

Array reduce_masked(OpId op, const Array& x, const MaskedReduction& request) {
  if (!request.where && !request.initial) return reduce(op, x, request.options);
  const auto traits = traits_of(op);
  if (!traits) throw Error(cat(name(op), ": neither where nor initial"));
  const DType dtype = reduction::reduce_dtype(op, x.dtype(), request.options.dtype);
  check_initial(*traits, request, dtype, name(op));
  if (traits->kind <= Kind::kAll) return reduce_selected(op, *traits, x, request, dtype);
  const ReduceOptions& options = request.options;
  const Selected selected = select_wide(*traits, x, *request.where, options, name(op));
  if (options.out) check_out(*options.out, selected.count.shape(), dtype, x.device(), name(op));
  const Array result = traits->kind == Kind::kMean ? masked_mean(selected, options)
                                                   : masked_variance(*traits, selected, options);
  return deliver(result, dtype, options.out, name(op));
}

}  // namespace gpk::ops
