// What plans know about the GPU, and the rates that all engines estimate their times with.
#pragma once

#include <cstddef>

#include "core/config.h"
#include "ops/matmul/desc.h"

namespace gpk {
class Context;
}

namespace gpk::ops {

struct Machine {
  int sm = 90;  // compute capability
  int sms = 132;
  std::size_t shared_bytes = 232448;  // per block, opt-in
  std::size_t l2_bytes = std::size_t{50} << 20;
  bool jit = true;        // kernels outside of the bundle can be had
  bool cublaslt = false;  // the library is loaded
  MatmulPolicy policy = MatmulPolicy::kAuto;
  friend bool operator==(const Machine&, const Machine&) = default;
};

// The machine of a context. cublaslt is false: decision.h says when the library is loaded.
Machine machine_of(const Context& context);

std::string to_string(const Machine& machine);

// Sustained rates, rough on purpose: they order kernels of different kinds, each engine scales them
// by the share it reaches.
double simt_flops_per_us(const Machine& machine);  // float32 FMA counts 2
// Tensor cores, 0 where the type has none. TF32 for float32.
double tensor_flops_per_us(const Machine& machine, DType operand);
double dram_bytes_per_us(const Machine& machine);
double l2_bytes_per_us(const Machine& machine);
inline constexpr double kLaunchUs = 2.0;  // a kernel that does nothing, as seen by the next one

double flops(const MatmulDesc& desc);
// a, b and c once each, broadcast batches once, and what the epilogue reads.
double bytes_once(const MatmulDesc& desc);
// Time of reading and writing them in DRAM: operands are not expected in the L2.
double operands_us(const MatmulDesc& desc, const Machine& machine);
// The pass that sums `splits` partial results and applies the epilogue (finish.h).
double finish_us(const MatmulDesc& desc, const Machine& machine, std::int64_t splits);

}  // namespace gpk::ops
