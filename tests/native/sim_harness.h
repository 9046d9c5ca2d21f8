// Runs small PTX kernels in the interpreter.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/launch.h"

namespace gpk::sim::test {

class Memory : public GlobalMemory {
 public:
  template <class T>
  void add(const std::vector<T>& array, const char* name) {
    allocations.push_back(
        {reinterpret_cast<std::uint64_t>(array.data()), array.size() * sizeof(T), name});
  }
  std::optional<Allocation> find(std::uint64_t address) const override {
    for (const Allocation& one : allocations)
      if (address >= one.base && address - one.base < one.bytes) return one;
    return std::nullopt;
  }
  std::optional<Allocation> nearest(std::uint64_t address) const override {
    std::optional<Allocation> best;
    std::uint64_t least = UINT64_MAX;
    for (const Allocation& one : allocations) {
      const std::uint64_t end = one.base + one.bytes;
      const std::uint64_t distance = address < one.base ? one.base - address
                                     : address >= end   ? address - end
                                                        : 0;
      if (distance >= least) continue;
      least = distance;
      best = one;
    }
    return best;
  }
  std::vector<Allocation> allocations;
};

inline std::string header(int sm = 90) {
  return ".version 8.4\n.target sm_" + std::to_string(sm) + (sm == 90 ? "a" : "") +
         "\n.address_size 64\n";
}

// One warp (or `threads`) that runs `body` with %rd1 = in, %rd2 = out and %r1 = the thread: the
// addresses of this thread's elements of `in` and `out`, 8 bytes each.
inline std::string lane_kernel(const std::string& body, const std::string& declarations = "") {
  return header() + declarations +
         ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
         ".reg .pred %p<16>;\n.reg .b16 %h<32>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<32>;\n"
         ".reg .f32 %f<64>;\n.reg .f64 %fd<16>;\n"
         "mov.u32 %r1, %tid.x;\nld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\n"
         "mul.wide.u32 %rd3, %r1, 8;\nadd.s64 %rd1, %rd1, %rd3;\nadd.s64 %rd2, %rd2, %rd3;\n" +
         body + "\nret;\n}\n";
}

struct Outcome {
  LaunchResult result;
  std::vector<std::uint64_t> out;
};

inline Outcome run_lanes(const std::string& ptx, std::vector<std::uint64_t> in,
                         LaunchOptions options = {}, unsigned threads = 0) {
  const auto module = Module::parse(ptx, 90);
  Outcome outcome;
  if (threads == 0) threads = static_cast<unsigned>(in.size());
  outcome.out.reserve(threads + 64);  // what lies behind it is no other array
  outcome.out.resize(threads);
  Memory memory;
  memory.add(in, "in");
  memory.add(outcome.out, "out");
  const void* in_at = in.data();
  const void* out_at = outcome.out.data();
  const void* params[] = {&in_at, &out_at};
  std::vector<std::uint64_t> addresses;
  std::vector<std::vector<std::uint64_t>> storage;
  for (const GlobalVariable& variable : module->globals()) {
    storage.emplace_back(variable.bytes / 8 + 1);
    addresses.push_back(reinterpret_cast<std::uint64_t>(storage.back().data()));
    memory.add(storage.back(), "variable");
  }
  place_globals(*module, addresses);
  options.threads = 1;
  outcome.result = run(*module->find("k"), {{1, 1, 1}, {threads, 1, 1}, {}, 1024}, params,
                       addresses, memory, options);
  return outcome;
}

inline std::vector<std::uint64_t> iota(unsigned count) {
  std::vector<std::uint64_t> values(count);
  for (unsigned i = 0; i < count; ++i) values[i] = i;
  return values;
}

}  // namespace gpk::sim::test
