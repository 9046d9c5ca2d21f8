// Every elementwise op: add(a, b), sqrt(x), where(condition, a, b) ... as listed in ops.def.
#pragma once

#include <algorithm>
#include <concepts>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/array.h"
#include "core/scalar.h"
#include "ops/elementwise/rules.h"
#include "ops/op.h"

namespace gpk::ops {

// An array, or a number: a Python number takes the arrays' dtype (`dtype` empty), a NumPy scalar
// brings its own.
struct Operand {
  Operand(const Array& a) : array(&a) {}   // NOLINT(google-explicit-constructor)
  Operand(const Scalar& s) : scalar(s) {}  // NOLINT(google-explicit-constructor)
  Operand(const Scalar& s, DType own) : scalar(s), dtype(own) {}

  const Array* array = nullptr;  // has to outlive the operand
  Scalar scalar = false;
  std::optional<DType> dtype;
};

struct ElementwiseOp {
  OpId id;
  const char* name;
  int arity;
  const char* functor;  // in kernels/elementwise
  elementwise::Rule rule;
};
const ElementwiseOp& elementwise_op(OpId id);
std::span<const ElementwiseOp> elementwise_ops();

// Broadcasts, promotes and computes; at least one operand is an array. The result goes to `out`
// when given: its shape must be the broadcast shape or one that it broadcasts to, its dtype one
// that the result casts to within its kind. `out` may overlap operands in any way.
Array run_elementwise(OpId id, std::span<const Operand> operands, const Array* out = nullptr);

namespace elementwise {

// What the op computes in and gives for these operands; arrays count by their dtype only. Throws as
// run_elementwise() does.
Types types_of(const ElementwiseOp& op, std::span<const Operand> operands);

// The same for a function that is not in the list, such as a fused one: what comes before the
// launch. Throws as run_elementwise() does.
struct CheckedOperands {
  Dims shape;
  Device device;
  DType common = DType::kBool;  // promoted dtype
};
CheckedOperands check_operands(const char* op, std::span<const Operand> operands,
                               std::size_t first_promoted);
void check_broadcast_out(const char* op, const Array& out, const Dims& shape, DType result,
                         Device device);

// "x1, x2": 2.
constexpr std::size_t count_names(std::string_view names) {
  return 1 + static_cast<std::size_t>(std::count(names.begin(), names.end(), ','));
}

// `args`: as many operands as the op has, then optionally a const Array* for the result.
template <std::size_t arity, class... Args>
Array call_op(OpId id, const Args&... args) {
  const auto given = std::tie(args...);
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    const Operand operands[] = {static_cast<Operand>(std::get<i>(given))...};
    if constexpr (sizeof...(Args) == arity)
      return run_elementwise(id, operands);
    else
      return run_elementwise(id, operands, std::get<arity>(given));
  }(std::make_index_sequence<arity>());
}

}  // namespace elementwise

// add(a, b), sqrt(x, &out), ...
#define GPK_ELEMENTWISE(op, names, functor, rule, doc)                                      \
  template <std::convertible_to<Operand> First, class... Rest>                              \
  Array op(const First& first, const Rest&... rest) {                                       \
    return elementwise::call_op<elementwise::count_names(names)>(OpId::op, first, rest...); \
  }
#include "ops/elementwise/ops.def"

}  // namespace gpk::ops
