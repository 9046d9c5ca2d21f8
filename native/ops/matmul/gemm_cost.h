// The machine as GEMM plans see it, and what their cost models have in common. Pure.
#pragma once

#include "core/config.h"
#include "ops/matmul/desc.h"
#include "plan/cost.h"

namespace gpk::ops::gemm {

struct GemmMachine : plan::Machine {
  bool cublaslt = false;  // the library is loaded
  MatmulPolicy policy = MatmulPolicy::kAuto;
  bool every_plan = false;  // engines propose all they could run, not only what promises most
  friend bool operator==(const GemmMachine&, const GemmMachine&) = default;
};

// The machine of a context. cublaslt is false: decision.h says when the library is loaded.
GemmMachine gemm_machine_of(const Context& context);

std::string to_string(const GemmMachine& machine);

using plan::kLaunchUs;

double flops(const MatmulDesc& desc);
// a, b and c once each, broadcast batches once, and what the epilogue reads.
double bytes_once(const MatmulDesc& desc);
// Time of reading and writing them in DRAM: operands are not expected in the L2.
double operands_us(const MatmulDesc& desc, const GemmMachine& machine);
// The split-K reduction and epilogue pass (finish.h).
double finish_us(const MatmulDesc& desc, const GemmMachine& machine, std::int64_t splits);

}  // namespace gpk::ops::gemm
