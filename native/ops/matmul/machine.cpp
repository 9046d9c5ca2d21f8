#include "ops/matmul/machine.h"

#include <algorithm>

#include "core/context.h"
#include "core/promote.h"
#include "core/text.h"
#include "jit/builtin.h"

namespace gpk::ops {
namespace {

// Per multiprocessor and clock: float32 lanes (FMA counts 2) and 16-bit tensor core operations; the
// clock under load in MHz; memory bandwidth in bytes per us.
struct Chip {
  int sm;
  double simt, tensor16, mhz, dram;
};
constexpr Chip kChips[] = {
    {80, 128, 2048, 1350, 1.7e6}, {86, 256, 1024, 1700, 0.8e6}, {89, 256, 1024, 2400, 0.9e6},
    {90, 256, 4096, 1600, 4.2e6}, {100, 256, 8192, 1700, 7e6},  {120, 256, 1024, 2300, 1.6e6},
};

const Chip& chip_of(const Machine& machine) {
  const Chip* best = kChips;
  for (const Chip& chip : kChips)
    if (chip.sm <= machine.sm) best = &chip;
  return *best;
}

constexpr double kLateUs = 2.0;  // a second kernel waits for the last block of the first

bool has_fp8(int sm) { return sm >= 89; }

double distinct(const Dims& shape, const Dims& strides) {
  double count = 1.0;
  for (int d = 0; d < shape.size(); ++d)
    if (strides[d] != 0) count *= static_cast<double>(shape[d]);
  return count;
}

}  // namespace

Machine machine_of(const Context& context) {
  const DeviceTraits& traits = context.traits();
  Machine machine;
  machine.sm = traits.sm;
  machine.sms = std::max(1, traits.multiprocessor_count);
  machine.shared_bytes = traits.shared_per_block_optin_bytes;
  machine.l2_bytes = traits.l2_bytes;
  machine.jit = jit::jit_available();
  machine.policy = Config::get().matmul;
  return machine;
}

std::string to_string(const Machine& machine) {
  static constexpr const char* kPolicies[] = {"auto", "native", "cublaslt"};
  return cat("sm_", machine.sm, ", ", machine.sms, " multiprocessors, ", machine.shared_bytes,
             " bytes of shared memory, ", machine.l2_bytes, " bytes of L2, jit ", machine.jit,
             ", cublaslt ", machine.cublaslt, ", policy ",
             kPolicies[static_cast<int>(machine.policy)]);
}

double simt_flops_per_us(const Machine& machine) {
  const Chip& chip = chip_of(machine);
  return machine.sms * chip.simt * chip.mhz;
}

double tensor_flops_per_us(const Machine& machine, DType operand) {
  const Chip& chip = chip_of(machine);
  const double half = machine.sms * chip.tensor16 * chip.mhz;
  switch (operand) {
    case DType::kFloat16:
    case DType::kBFloat16: return half;
    case DType::kFloat32: return half / 2;
    case DType::kInt8: return half * 2;
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2: return has_fp8(machine.sm) ? half * 2 : 0.0;
    default: return 0.0;
  }
}

double dram_bytes_per_us(const Machine& machine) { return chip_of(machine).dram; }
double l2_bytes_per_us(const Machine& machine) {
  return machine.sms * 32.0 * chip_of(machine).mhz;  // half of what its ports could do
}

double flops(const MatmulDesc& desc) {
  const MatmulProblem& p = desc.problem;
  const double products = static_cast<double>(p.num_batches()) * static_cast<double>(p.m) *
                          static_cast<double>(p.n) * static_cast<double>(p.k);
  return products * (is_complex(desc.dtype_a) ? 8.0 : 2.0);
}

double bytes_once(const MatmulDesc& desc) {
  const MatmulProblem& p = desc.problem;
  const auto area = [](std::int64_t rows, std::int64_t columns, DType dtype) {
    return static_cast<double>(rows) * static_cast<double>(columns) *
           static_cast<double>(itemsize(dtype));
  };
  double bytes = area(p.m, p.k, desc.dtype_a) * distinct(p.batch_shape, p.batch_a) +
                 area(p.k, p.n, desc.dtype_b) * distinct(p.batch_shape, p.batch_b);
  const double results = area(p.m, p.n, desc.dtype_c) * static_cast<double>(p.num_batches());
  bytes += results;
  if ((desc.epilogue & kEpilogueResidual) != 0) bytes += results;
  return bytes;
}

double operands_us(const MatmulDesc& desc, const Machine& machine) {
  return bytes_once(desc) / dram_bytes_per_us(machine);
}

double finish_us(const MatmulDesc& desc, const Machine& machine, std::int64_t splits) {
  const MatmulProblem& p = desc.problem;
  const double outputs =
      static_cast<double>(p.num_batches()) * static_cast<double>(p.m) * static_cast<double>(p.n);
  const double each = static_cast<double>(itemsize(desc.dtype_acc)) * static_cast<double>(splits) +
                      static_cast<double>(itemsize(desc.dtype_c)) *
                          ((desc.epilogue & kEpilogueResidual) != 0 ? 2.0 : 1.0);
  const double bytes = outputs * each;  // just written: in the L2 if they fit there
  const bool fits = bytes < 0.6 * static_cast<double>(machine.l2_bytes);
  return kLaunchUs + kLateUs +
         bytes / (fits ? l2_bytes_per_us(machine) : dram_bytes_per_us(machine));
}

}  // namespace gpk::ops
