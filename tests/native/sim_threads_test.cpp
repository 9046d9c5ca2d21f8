// A grid over several host threads: atomics, flags between blocks.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim_harness.h"

namespace gpk::sim {
namespace {

// Every thread adds its block + 1 to out[0]; block b waits for block b - 1, then sets its flag.
const char kChain[] = R"(
.visible .entry k(.param .u64 out)
{
  .reg .pred %p<4>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  add.u32 %r3, %r1, 1;
  red.global.add.u32 [%rd1], %r3;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra DONE;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
  setp.eq.u32 %p2, %r1, 0;
  @%p2 bra SET;
WAIT:
  ld.acquire.gpu.global.u32 %r4, [%rd2+4];
  setp.eq.u32 %p3, %r4, 0;
  @%p3 bra WAIT;
SET:
  st.release.gpu.global.u32 [%rd2+8], 1;
DONE:
  ret;
}
)";

TEST(SimThreads, BlocksWaitForEachOther) {
  constexpr unsigned kBlocks = 24;
  const auto module = Module::parse(test::header() + kChain, 90);
  for (const unsigned threads : {1u, 2u, 4u}) {
    for (const std::uint64_t seed : {0u, 7u}) {
      std::vector<std::uint32_t> out(kBlocks + 2);
      test::Memory memory;
      memory.add(out, "out");
      const void* out_at = out.data();
      const void* params[] = {&out_at};
      LaunchOptions options;
      options.threads = threads;
      options.seed = seed;
      options.counts = true;
      const LaunchResult result = run(*module->find("k"), {{kBlocks, 1, 1}, {64, 1, 1}, {}, 0},
                                      params, {}, memory, options);
      ASSERT_TRUE(result.ok) << result.findings[0].text;
      EXPECT_EQ(out[0], 64 * kBlocks * (kBlocks + 1) / 2);
      EXPECT_EQ(std::count(out.begin() + 2, out.end(), 1u), kBlocks);
    }
  }
}

}  // namespace
}  // namespace gpk::sim
