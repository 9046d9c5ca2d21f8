#include "ops/matmul/gemm_cost.h"

#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"

namespace gpk::ops::gemm {
namespace {

double distinct(const Dims& shape, const Dims& strides) {
  double count = 1.0;
  for (int d = 0; d < shape.size(); ++d)
    if (strides[d] != 0) count *= static_cast<double>(shape[d]);
  return count;
}

}  // namespace

GemmMachine gemm_machine_of(const Context& context) {
  return {plan::machine_of(context), false, Config::get().matmul, false};
}

std::string to_string(const GemmMachine& machine) {
  static constexpr const char* kPolicies[] = {"auto", "native", "cublaslt"};
  return cat(to_string(static_cast<const plan::Machine&>(machine)), ", cublaslt ", machine.cublaslt,
             ", policy ", kPolicies[static_cast<int>(machine.policy)]);
}

double flops(const MatmulDesc& desc) {
  const MatmulProblem& p = desc.problem;
  const double multiplies = static_cast<double>(p.num_batches()) * static_cast<double>(p.m) *
                            static_cast<double>(p.n) * static_cast<double>(p.k);
  return multiplies * (is_complex(desc.a.dtype) ? 8.0 : 2.0);
}

double bytes_once(const MatmulDesc& desc) {
  const MatmulProblem& p = desc.problem;
  const auto area = [](std::int64_t rows, std::int64_t columns, DType dtype) {
    return static_cast<double>(rows) * static_cast<double>(columns) *
           static_cast<double>(itemsize(dtype));
  };
  const double per_value = desc.b.packing == plan::Packing::kNone ? 1.0 : 0.5;
  double bytes = area(p.m, p.k, desc.a.dtype) * distinct(p.batch_shape, p.batch_a) +
                 per_value * area(p.k, p.n, desc.b.dtype) * distinct(p.batch_shape, p.batch_b);
  const double results = area(p.m, p.n, desc.dtype_c) * static_cast<double>(p.num_batches());
  bytes += results;
  if ((desc.epilogue & kEpilogueResidual) != 0) bytes += results;
  return bytes;
}

double operands_us(const MatmulDesc& desc, const GemmMachine& machine) {
  return bytes_once(desc) / dram_bytes_per_us(machine);
}

double finish_us(const MatmulDesc& desc, const GemmMachine& machine, std::int64_t splits) {
  const MatmulProblem& p = desc.problem;
  const double outputs =
      static_cast<double>(p.num_batches()) * static_cast<double>(p.m) * static_cast<double>(p.n);
  const double each = static_cast<double>(itemsize(desc.dtype_acc)) * static_cast<double>(splits) +
                      static_cast<double>(itemsize(desc.dtype_c)) *
                          ((desc.epilogue & kEpilogueResidual) != 0 ? 2.0 : 1.0);
  return dependent_pass_us(machine, outputs * each);
}

}  // namespace gpk::ops::gemm
