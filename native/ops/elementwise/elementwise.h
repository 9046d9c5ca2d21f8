// Every elementwise op: add(a, b), sqrt(x), where(condition, a, b) ... as listed in ops.def.
#pragma once

#include <optional>
#include <span>

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
  Rule rule;
};
const ElementwiseOp& elementwise_op(OpId id);
std::span<const ElementwiseOp> elementwise_ops();

// What the op computes in and gives for these operands; arrays count by their dtype only. Throws as
// elementwise does.
Types types_of(const ElementwiseOp& op, std::span<const Operand> operands);

// Broadcasts, promotes and computes; at least one operand is an array. The result goes to `out`
// when given: its shape must be the broadcast shape or one that it broadcasts to, its dtype one
// that the result casts to within its kind. `out` may overlap operands in any way.
Array elementwise(OpId id, std::span<const Operand> operands, const Array* out = nullptr);

// The same for a function that is not in the list, such as a fused one: what comes before the
// launch. Throws as elementwise does.
struct CheckedOperands {
  Dims shape;
  Device device;
  DType common = DType::kBool;  // promoted dtype
};
CheckedOperands check_operands(const char* op, std::span<const Operand> operands,
                               std::size_t first_promoted);
void check_broadcast_out(const char* op, const Array& out, const Dims& shape, DType result,
                         Device device);

#define GPK_NAMES_1 const Operand& x
#define GPK_NAMES_2 const Operand &x1, const Operand &x2
#define GPK_NAMES_3 const Operand &x1, const Operand &x2, const Operand &x3
#define GPK_NAMES_4 const Operand &x1, const Operand &x2, const Operand &x3, const Operand &x4
#define GPK_VALUES_1 x
#define GPK_VALUES_2 x1, x2
#define GPK_VALUES_3 x1, x2, x3
#define GPK_VALUES_4 x1, x2, x3, x4
#define GPK_ELEMENTWISE(op, arity, functor, rule, doc)             \
  inline Array op(GPK_NAMES_##arity, const Array* out = nullptr) { \
    const Operand operands[] = {GPK_VALUES_##arity};               \
    return elementwise(OpId::op, operands, out);                   \
  }
#include "ops/elementwise/ops.def"
#undef GPK_ELEMENTWISE

}  // namespace gpk::ops
