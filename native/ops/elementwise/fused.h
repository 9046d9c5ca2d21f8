// A function of arrays made of elementwise ops, compiled into one kernel.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/array.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/map.h"
#include "ops/simulate.h"

namespace gpk::ops {

class Fused {
 public:
  struct Input {
    DType dtype;     // of the array; of a number: bool, int64, float64 or complex128
    bool is_number;  // passed by value
  };

  // `source` defines a functor gpk::Fused with a static member template run<T>(values...) that gets
  // each input in the compute type of its dtype and returns the result. At most eight inputs.
  Fused(std::string name, std::string source, std::vector<Input> inputs, DType result);

  // Operands of the dtypes and kinds said above. `out` as in run_elementwise(). CPU arrays: in the
  // simulator.
  Array run(std::span<const Operand> operands, const Array* out);

  // All that NVRTC compiles, includes aside.
  [[nodiscard]] const std::string& source() const noexcept { return source_; }
  [[nodiscard]] const std::vector<Input>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] DType result() const noexcept { return result_; }

 private:
  [[nodiscard]] jit::CompileRequest request(const elementwise::MapPlan& plan, int sm) const;
  const Kernel& kernel_for(Context& context, const elementwise::MapPlan& plan);

  std::string name_;
  std::string source_;
  std::vector<Input> inputs_;
  DType result_;
  std::mutex mutex_;
  std::map<std::pair<const Context*, std::uint64_t>, std::shared_ptr<Kernel>> kernels_;
  SimulatedKernel simulated_;
};

}  // namespace gpk::ops
