// The ops as data, and the kernels they may launch.
#pragma once

#include <cstdint>
#include <vector>

#include "jit/builtin.h"

namespace gpk::ops {

enum class OpId : std::uint16_t {
#define GPK_OP(name, family, doc) name,
#include "ops/op_list.def"
#undef GPK_OP
  fill,  // behind ones() and full(); has no public op of its own
};

struct OpInfo {
  OpId id;
  const char* name;
  const char* family;
  const char* doc;
};
const std::vector<OpInfo>& op_list();

// Appends every kernel variant that plan_<op> can choose.
#define GPK_OP(name, family, doc) void enumerate_##name(std::vector<jit::KernelSpec>& specs);
#include "ops/op_list.def"
#undef GPK_OP
void enumerate_fill(std::vector<jit::KernelSpec>& specs);

// All of the above.
std::vector<jit::KernelSpec> all_kernel_specs();

}  // namespace gpk::ops
