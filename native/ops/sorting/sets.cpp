#include "ops/sorting/sets.h"

#include "core/promote.h"
#include "ops/checks.h"
#include "ops/elementwise/copy.h"
#include "ops/sorting/rows.h"
#include "ops/sorting/search.h"
#include "ops/sorting/sort.h"
#include "ops/sorting/unique.h"

namespace gpk::ops {
namespace {

using namespace sorting;

DType check_sets(const Array& x1, const Array& x2, const char* op) {
  check_compute_dtype(x1, "x1", op);
  check_compute_dtype(x2, "x2", op);
  check_device(x1, "x1", x2.device(), "x2", op);
  return promote_types(x1.dtype(), x2.dtype(), op);
}

// The distinct elements, sorted.
Array as_set(const Array& x, bool assume_unique, const char* op) {
  if (assume_unique) return sort(x, std::nullopt, false, std::nullopt, op);
  return unique(x, {}, op).values;
}

}  // namespace

Array union1d(const Array& x1, const Array& x2) {
  constexpr const char* op = "union1d";
  const DType dtype = check_sets(x1, x2, op);
  return unique(concatenate_flat(x1, x2, dtype, op), {}, op).values;
}

Array intersect1d(const Array& x1, const Array& x2, bool assume_unique) {
  constexpr const char* op = "intersect1d";
  const DType dtype = check_sets(x1, x2, op);
  const Array set = as_set(cast(x1, dtype, op), assume_unique, op);
  return select_flagged(set, isin(set, x2, false, op), op);
}

Array setdiff1d(const Array& x1, const Array& x2, bool assume_unique) {
  constexpr const char* op = "setdiff1d";
  check_sets(x1, x2, op);
  const Array set = assume_unique ? flatten(x1, op) : unique(x1, {}, op).values;
  return select_flagged(set, isin(set, x2, true, op), op);
}

Array setxor1d(const Array& x1, const Array& x2, bool assume_unique) {
  constexpr const char* op = "setxor1d";
  const DType dtype = check_sets(x1, x2, op);
  const Array a = as_set(cast(x1, dtype, op), assume_unique, op);
  const Array b = as_set(cast(x2, dtype, op), assume_unique, op);
  const Array only_a = select_flagged(a, isin(a, b, true, op), op);
  const Array only_b = select_flagged(b, isin(b, a, true, op), op);
  return sort(concatenate_flat(only_a, only_b, dtype, op), std::nullopt, false, std::nullopt, op);
}

}  // namespace gpk::ops
