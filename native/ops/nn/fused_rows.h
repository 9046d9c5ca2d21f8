// A function of arrays made of elementwise ops and ops over rows, compiled into one kernel.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/array.h"
#include "jit/compiler.h"
#include "ops/elementwise/fused.h"
#include "ops/nn/fused_shapes.h"
#include "ops/nn/rows.h"
#include "ops/simulate.h"

namespace gpk::ops {

// How a kernel of kernels/nn/fused_rows.cuh is instantiated and its threads are dealt out.
struct FusedRowsPlan {
  nn::RowPlan rows;         // accesses: held in registers; 0: every pass reads memory
  bool online = false;      // softmax in one pass, as the op alone has it for such rows
  bool one_result = false;  // per row
  std::uint32_t kinds = 0;  // two bits per input: kernels::OperandKind
  friend bool operator==(const FusedRowsPlan&, const FusedRowsPlan&) = default;
};
// "fused_rows(vec=8, accesses=4, group=128, online=false, one_result=false, kinds=0)"
std::string to_string(const FusedRowsPlan& plan);

std::string expression(const FusedRowsPlan& plan);  // "gpk::fused_rows<gpk::Fused, 8, 4, ...>"

class FusedRows {
 public:
  struct Function {
    std::string name;
    std::string source;                // defines gpk::Fused, with a static member template run(row)
    std::vector<Fused::Input> inputs;  // at most eight
    DType result;
    nn::Expression expression;  // of the result
    std::vector<nn::RowUse> uses;
    DType row_dtype;  // whose rows decide the order of sums
    int held_bytes;   // per element, in registers for later passes
    int num_values;   // per element, computed in one pass
  };

  explicit FusedRows(Function function);

  // Throws InvalidArgument unless the function takes these operands and gives a result that `out`
  // (may be nullptr) takes. On any device.
  nn::FusedShapes check(std::span<const Operand> operands, const Array* out) const;

  // `out` as in run_elementwise(), of the result's dtype. CPU arrays: in the simulator.
  Array run(std::span<const Operand> operands, const Array* out);

  // What run() would launch into `out`, of the result's shape; on any device. `shared_limit`: bytes
  // of shared memory of a block.
  struct Prepared {
    FusedRowsPlan plan;
    LaunchConfig config;
    std::string args;           // the bytes of kernels::FusedRowsArgs
    std::vector<Array> arrays;  // that they point into
  };
  [[nodiscard]] Prepared prepare(std::span<const Operand> operands, const Array& out,
                                 std::size_t shared_limit) const;

  // The request for NVRTC.
  [[nodiscard]] jit::CompileRequest request(const FusedRowsPlan& plan, int sm) const;

  // All that NVRTC compiles, includes aside.
  [[nodiscard]] const std::string& source() const noexcept { return function_.source; }

 private:
  struct Call;
  void read_arrays(std::span<const Operand> operands, const Array& result,
                   const nn::FusedShapes& shapes, Call& call) const;
  void plan_call(std::span<const Operand> operands, const Array& result,
                 const nn::FusedShapes& shapes, std::size_t shared_limit, Call& call) const;
  const Kernel& kernel_for(Context& context, const FusedRowsPlan& plan);
  void simulate(std::span<const Operand> operands, const Array& out);

  Function function_;
  std::mutex mutex_;
  std::map<std::pair<const Context*, std::uint64_t>, std::shared_ptr<Kernel>> kernels_;
  SimulatedKernel simulated_;
};

}  // namespace gpk::ops
