#include "plan/machine.h"

#include <algorithm>

#include "base/text.h"
#include "core/context.h"
#include "jit/builtin.h"

namespace gpk::plan {
namespace {

constexpr std::size_t operator""_MiB(unsigned long long count) { return count << 20; }

}  // namespace

Machine machine_of(const Context& context) {
  const DeviceTraits& traits = context.traits();
  return {.sm = traits.sm,
          .sms = std::max(1, traits.multiprocessor_count),
          .shared_bytes = traits.shared_per_block_optin_bytes,
          .l2_bytes = traits.l2_bytes,
          .jit = jit::jit_available()};
}

const std::vector<Machine>& typical_machines() {
  static const std::vector<Machine> all{
      {80, 108, 166912, 40_MiB, true},    // A100
      {86, 84, 101376, 6_MiB, true},      // RTX 3090 Ti
      {89, 128, 101376, 72_MiB, true},    // RTX 4090
      {90, 132, 232448, 50_MiB, true},    // H100, H200
      {100, 148, 232448, 126_MiB, true},  // B200
      {120, 170, 101376, 96_MiB, true},   // RTX 5090
  };
  return all;
}

std::string to_string(const Machine& machine) {
  return cat("sm_", machine.sm, ", ", machine.sms, " multiprocessors, ", machine.shared_bytes,
             " bytes of shared memory, ", machine.l2_bytes, " bytes of L2, jit ", machine.jit);
}

}  // namespace gpk::plan
