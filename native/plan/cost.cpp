#include "plan/cost.h"

#include <cmath>

namespace gpk::plan {
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

constexpr double kDependencyUs = 2.0;  // a second kernel waits for the last block of the first
constexpr double kL2Share = 0.6;       // fraction of the L2 expected to still hold the data
constexpr int kFp8Sm = 89;

}  // namespace

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
    case DType::kFloat8E5M2: return machine.sm >= kFp8Sm ? half * 2 : 0.0;
    default: return 0.0;
  }
}

double dram_bytes_per_us(const Machine& machine) { return chip_of(machine).dram; }

double l2_bytes_per_us(const Machine& machine) {
  return machine.sms * 32.0 * chip_of(machine).mhz;  // half the rate of its ports
}

double dependent_pass_us(const Machine& machine, double bytes) {
  const bool fits = bytes < kL2Share * static_cast<double>(machine.l2_bytes);
  return kLaunchUs + kDependencyUs +
         bytes / (fits ? l2_bytes_per_us(machine) : dram_bytes_per_us(machine));
}

double overlapped_us(double x, double y, double z) {
  return std::sqrt(std::sqrt(x * x * x * x + y * y * y * y + z * z * z * z));
}

}  // namespace gpk::plan
