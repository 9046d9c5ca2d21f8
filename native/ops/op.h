// The ops as data, and the kernels they may launch.
#pragma once

#include <cstdint>
#include <vector>

#include "jit/builtin.h"

namespace gpk::inline core {
class Context;
}

namespace gpk::ops {

enum class OpId : std::uint16_t {
#define GPK_OP(name, family, module, signature, doc) name,
#include "ops/op_list.def"
};

enum class Family : std::uint8_t {
#define GPK_FAMILY(name) name,
#include "ops/families.def"
#undef GPK_FAMILY
};

// A line of op_list.def.
struct OpInfo {
  const char* name;
  const char* family;  // "" for a composite function
  const char* module;
  const char* signature;
  const char* doc;
};
const std::vector<OpInfo>& op_list();        // by OpId
const std::vector<OpInfo>& function_list();  // composite functions
inline const char* name(OpId id) { return op_list()[static_cast<std::size_t>(id)].name; }

// Appends every kernel variant that the family's plans can choose.
#define GPK_FAMILY(name) void enumerate_##name(std::vector<jit::KernelSpec>& specs);
#include "ops/families.def"
#undef GPK_FAMILY

// All of the above.
std::vector<jit::KernelSpec> all_kernel_specs();

// A kernel of the PTX bundle and its target architecture: exactly this one where the kernel needs
// its specific instructions (KernelSpec::exact_sms), else this one and newer.
struct BundledKernel {
  jit::KernelSpec spec;
  int sm = 80;
};
// All specs marked as bundled, and the ones matmul's plans choose for typical GEMMs.
std::vector<BundledKernel> bundled_kernels();

// The kernels to prepare in the background on first use of a family (jit/prefetch.h).
std::vector<jit::KernelSpec> prefetch_list(Family family, Context& context);

}  // namespace gpk::ops
