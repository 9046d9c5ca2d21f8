// Malformed PTX is refused or runs; it never crashes the host. GPK_SIM_MUTANTS=10000 for a long
// run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sim_harness.h"
#include "sim_mutants.h"

namespace gpk::sim {
namespace {

using test::Memory;

// What a mutant may be launched with: buffers larger than the programs use.
class Bench {
 public:
  Bench() : in_(4096), out_(4096) {
    for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = i * 0x9e3779b97f4a7c15u;
  }

  void launch(const Module& module) {
    Memory memory;
    memory.add(in_, "in");
    memory.add(out_, "out");
    std::vector<std::uint64_t> addresses;
    std::vector<std::vector<std::uint64_t>> storage;
    for (const GlobalVariable& variable : module.globals()) {
      if (variable.bytes > (1u << 20)) return;
      storage.emplace_back(variable.bytes / 8 + 1 + variable.align / 8);
      const auto at = reinterpret_cast<std::uint64_t>(storage.back().data());
      const std::uint64_t align = std::max<std::size_t>(variable.align, 1);
      addresses.push_back((at + align - 1) / align * align);
      memory.add(storage.back(), "variable");
    }
    place_globals(module, addresses);
    for (const Kernel* kernel : module.kernels()) {
      std::vector<std::vector<std::byte>> values;
      std::vector<const void*> params;
      for (const KernelParam& param : kernel->params()) {
        if (param.bytes > 4096) return;
        values.emplace_back(std::max<std::size_t>(param.bytes, 8));
        const void* at = values.size() == 1 ? in_.data() : out_.data();
        std::memcpy(values.back().data(), &at, sizeof at);
      }
      for (const auto& value : values) params.push_back(value.data());
      LaunchOptions options;
      options.threads = 1;
      options.max_warp_ops = 20000;
      options.check = options.check_races = launches_++ % 2 == 0;
      options.print = [](std::string_view) {};
      try {
        run(*kernel, {{1, 1, 1}, {64, 1, 1}, {}, 1024}, params.data(), addresses, memory, options);
        ++ran;
      } catch (const std::invalid_argument&) {
      } catch (const std::bad_alloc&) {
      }
    }
  }

  std::size_t ran = 0;

 private:
  std::vector<std::uint64_t> in_, out_;
  std::size_t launches_ = 0;
};

TEST(SimMutants, SeedsAreValid) {
  for (const std::string& seed : test::mutant_seeds()) {
    Bench bench;
    try {
      bench.launch(*Module::parse(seed, 90));
    } catch (const PtxError& error) {
      ADD_FAILURE() << error.what() << "\n" << seed;
    }
    EXPECT_EQ(bench.ran, 1u) << seed;
  }
}

TEST(SimMutants, AreRefusedOrRun) {
  const char* const asked = std::getenv("GPK_SIM_MUTANTS");
  const char* const first = std::getenv("GPK_SIM_MUTANT_FIRST");  // repeats one of a long run
  const unsigned count = asked != nullptr ? static_cast<unsigned>(std::atoi(asked)) : 400;
  const unsigned from = first != nullptr ? static_cast<unsigned>(std::atoi(first)) : 0;
  const auto seeds = test::mutant_seeds();
  Bench bench;
  std::size_t refused = 0;
  for (unsigned i = from; i < from + count; ++i) {
    const std::string ptx = test::mutant(seeds, i);
    if (first != nullptr && count == 1) std::puts(ptx.c_str());
    SCOPED_TRACE("mutant " + std::to_string(i));
    try {
      bench.launch(*Module::parse(ptx, 90));
    } catch (const PtxError&) {
      ++refused;
    }
  }
  // Both happen, or the mutants are no test.
  if (count >= 100) {
    EXPECT_GT(refused, count / 10);
    EXPECT_GT(bench.ran, count / 20);
  }
}

}  // namespace
}  // namespace gpk::sim
