// Kernels that differ have different keys: a launch never finds another variant's code.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "ops/matmul/typical.h"
#include "ops/op.h"
#include "plan/machine.h"

namespace gpk::ops {
namespace {

using Code = std::pair<std::string, std::string>;  // file, expression

class VariantKeys {
 public:
  void add(const std::vector<jit::KernelSpec>& specs) {
    for (const jit::KernelSpec& spec : specs) {
      const Code code{spec.file, spec.expression};
      const auto [it, added] = code_of_.emplace(std::pair(spec.kernel, spec.variant), code);
      EXPECT_EQ(it->second, code) << "kernel " << int{spec.kernel} << ", variant " << spec.variant
                                  << " is also " << it->second.second;
    }
  }
  [[nodiscard]] std::size_t size() const { return code_of_.size(); }
  // Kernels with distinct keys.
  [[nodiscard]] std::size_t num_codes() const {
    std::set<Code> codes;
    for (const auto& [key, code] : code_of_) codes.insert(code);
    return codes.size();
  }

 private:
  std::map<std::pair<std::uint8_t, std::uint64_t>, Code> code_of_;
};

std::size_t distinct(const std::vector<jit::KernelSpec>& specs) {
  std::set<Code> codes;
  for (const jit::KernelSpec& spec : specs) codes.emplace(spec.file, spec.expression);
  return codes.size();
}

#define GPK_FAMILY(name)                          \
  TEST(VariantKeys, name) {                       \
    std::vector<jit::KernelSpec> specs;           \
    enumerate_##name(specs);                      \
    VariantKeys keys;                             \
    keys.add(specs);                              \
    EXPECT_GE(keys.size(), distinct(specs));      \
    EXPECT_EQ(keys.num_codes(), distinct(specs)); \
  }
#include "ops/families.def"
#undef GPK_FAMILY

// What plans choose on GPUs of every architecture, beside what is enumerated.
TEST(VariantKeys, PlansOfEveryArchitecture) {
  std::vector<jit::KernelSpec> specs;
  enumerate_matmul(specs);
  VariantKeys keys;
  keys.add(specs);
  for (const plan::Machine& machine : plan::typical_machines())
    keys.add(gemm::typical_kernels(machine));
  EXPECT_GT(keys.size(), 100u);
}

}  // namespace
}  // namespace gpk::ops
