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

// Numbers and depths that a mutation by chance does not find.
TEST(SimMutants, LimitsAreRefused) {
  const auto nested = [](const char* open, const char* close, int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += open;
    text += "1";
    for (int i = 0; i < depth; ++i) text += close;
    return text;
  };
  const std::string entry = ".visible .entry k()\n{\n.reg .b32 %r<4>;\n";
  const std::string bad[] = {
      ".global .u32 x[1] = " + nested("{", "}", 200000) + ";\n",
      ".global .b64 x[4294967296][4294967296][4];\n",
      ".global .b8 x[18446744073709551615];\n",
      ".global .b8 x[4294967296] = {1};\n",
      ".global .align 3 .b8 x[4];\n",
      entry + ".shared .b8 x[4294967296];\nmov.u32 %r1, x;\nret;\n}\n",
      entry + ".local .b8 x[4294967296];\nret;\n}\n",
      entry + ".reg .b32 %q<4294967296>;\nret;\n}\n",
      entry + "mov.u32 %r1, " + nested("{", "}", 200000) + ";\nret;\n}\n",
      entry + "mov.u32 %r1, " + nested("!", "", 200000) + ";\nret;\n}\n",
      entry + "mov.u32 %r1, " + nested("(", ")", 200000) + ";\nret;\n}\n",
      entry + nested("{", "", 1000),
  };
  for (const std::string& text : bad)
    EXPECT_THROW(Module::parse(test::header() + text, 90), PtxError) << text.substr(0, 100);
}

TEST(SimMutants, DeepScopesAndLongProgramsRun) {
  std::string text = test::header() + ".visible .entry k()\n{\n.reg .b32 %r<4>;\n";
  for (int i = 0; i < 2000; ++i) text += "{\n";
  for (int i = 0; i < 2000; ++i) text += "}\n";
  for (int i = 0; i < 5000; ++i) {
    const std::string label = "L" + std::to_string(i);
    text += "add.u32 %r1, %r1, 1;\nbra " + label + ";\n" + label + ":\n";
  }
  const auto module = Module::parse(text + "ret;\n}\n", 90);
  Bench bench;
  bench.launch(*module);
  EXPECT_EQ(bench.ran, 1u);
}

}  // namespace
}  // namespace gpk::sim
