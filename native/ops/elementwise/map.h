// The engine of elementwise ops: from operands to a launch of one of the kernels of
// kernels/elementwise/map.cuh. Ops, copies and fused functions all go through it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/array.h"
#include "core/scalar.h"
#include "jit/builtin.h"
#include "ops/elementwise/layout.h"

namespace gpk::ops {
class SimulatedKernel;  // ops/simulate.h
}

namespace gpk::ops::elementwise {

// An array that broadcasts to the result, or a number given in the compute type.
struct MapOperand {
  const Array* array = nullptr;
  ScalarBytes number = {};
};

struct MapPlan {
  enum class Form : std::uint8_t { kDense, kStrided, kAny };
  Form form = Form::kDense;
  int vec = 1;              // elements per access
  bool deep = false;        // kStrided: more than kFewAxes
  bool wide = false;        // kStrided: 64-bit offsets
  std::uint32_t kinds = 0;  // two bits per operand: kernels::OperandKind
  std::int64_t items = 0;   // pieces of `vec` elements
  friend bool operator==(const MapPlan&, const MapPlan&) = default;
};
inline constexpr int kMapBlock = 256;
inline constexpr int kMapUnroll = 2;
inline constexpr int kFewAxes = 4;  // of the strided kernels for the usual ranks

// `operands` and `result` as in the call, `layout` made of them. With `jit` a kernel for the exact
// dtypes is chosen, else the one of the bundle. Pure; reads addresses for their alignment only.
MapPlan plan_map(const Layout& layout, std::span<const MapOperand> operands, const Array& result,
                 bool jit);
std::string to_string(const MapPlan& plan);

// "gpk::map_dense<gpk::Add, float, float, 4, 2, 0u, float, float>"; `common` is the type the
// operands are converted to, `inputs` the stored ones (for numbers: what they are passed as).
std::string map_expression(const MapPlan& plan, const std::string& functor,
                           const std::string& common, std::span<const DType> inputs, DType result);

// The variant key of the same, for up to four inputs and op numbers below 256.
std::uint64_t map_key(const MapPlan& plan, unsigned op, DType common, std::span<const DType> inputs,
                      DType result);

// Kernels of the family, as KernelKey numbers them.
enum class ElementwiseKernel : std::uint8_t { kMap, kTranspose, kPacked, kFill, kConcat };

// Op numbers of map_key() behind those of the listed ops.
inline constexpr unsigned kCopyOp = 250;
inline constexpr unsigned kFillOp = 251;

// Submits `kernel`, which was built for the plan.
void launch_map(const Kernel& kernel, const MapPlan& plan, const Layout& layout,
                std::span<const MapOperand> operands, const Array& result);

// The same on CPU arrays, in the simulator.
void simulate_map(SimulatedKernel& kernel, std::uint64_t variant,
                  const jit::CompileRequest& request, const MapPlan& plan, const Layout& layout,
                  std::span<const MapOperand> operands, const Array& result);

// Layout, plan, kernel and launch of a functor of kernels/elementwise. `op` is a number below 256,
// `name` what messages and profilers show. Result not empty, on a GPU; operands do not overlap it
// unless they are the same view.
void run_map(unsigned op, const char* name, const char* functor, DType common,
             std::span<const MapOperand> operands, const Array& result);

// A kernel of map.cuh, and the name of the one in the bundle.
jit::KernelSpec map_spec(const char* name, std::string expression, std::uint64_t key, bool bundled);
std::string any_expression(const std::string& functor, DType common, std::size_t num_operands);

// A Python number as `dtype` stores it, widened to its compute type.
ScalarBytes compute_number(const Scalar& scalar, DType dtype, const char* op);

}  // namespace gpk::ops::elementwise
