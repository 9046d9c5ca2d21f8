// Tensor copies and clusters of the PTX interpreter.
#include <gtest/gtest.h>

#include "sim/tensor_map.h"
#include "sim_harness.h"

namespace gpk::sim {
namespace {

const char kLoadBox[] = R"(
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)
{
  .shared .align 1024 .b8 box[1024];
  .shared .align 8 .b64 bar;
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %rd<8>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, box;
  mov.u32 %r3, bar;
  mov.b64 %rd1, map;
  cvta.param.u64 %rd1, %rd1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra WAIT;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1024;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd1, {16, 1}], [%r3];
WAIT:
  bar.sync 0;
LOOP:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra LOOP;
  shl.b32 %r4, %r1, 2;
  add.u32 %r5, %r2, %r4;
  ld.shared.u32 %r6, [%r5];
  ld.param.u64 %rd2, [out];
  cvt.u64.u32 %rd3, %r4;
  add.u64 %rd2, %rd2, %rd3;
  st.global.u32 [%rd2], %r6;
  ret;
}
)";

TEST(SimTensor, SwizzledBoxWithFill) {
  constexpr unsigned kColumns = 40, kRows = 6;
  std::vector<std::uint32_t> tensor(kColumns * kRows);
  for (unsigned i = 0; i < tensor.size(); ++i) tensor[i] = i + 1;
  std::vector<std::uint32_t> out(256, 77);
  struct alignas(64) {
    SimTensorMap map;
    char rest[128 - sizeof(SimTensorMap)] = {};
  } param;
  param.map.dtype = 2;
  param.map.rank = 2;
  param.map.swizzle = 3;
  param.map.address = reinterpret_cast<std::uint64_t>(tensor.data());
  param.map.sizes[0] = kColumns;
  param.map.sizes[1] = kRows;
  param.map.pitches[0] = kColumns * 4;
  param.map.box[0] = 32;
  param.map.box[1] = 8;
  test::Memory memory;
  memory.add(tensor, "tensor");
  memory.add(out, "out");
  const void* out_at = out.data();
  const void* params[] = {&param, &out_at};
  const auto module = Module::parse(test::header() + kLoadBox, 90);
  LaunchOptions options;
  options.check = options.check_races = true;
  const LaunchResult result =
      run(*module->find("k"), {{1, 1, 1}, {256, 1, 1}, {}, 0}, params, {}, memory, options);
  ASSERT_TRUE(result.ok) << result.findings[0].text;
  EXPECT_TRUE(result.findings.empty());
  for (unsigned row = 0; row < 8; ++row)
    for (unsigned column = 0; column < 32; ++column) {
      const unsigned at = row * 32 + (column / 4 ^ row) * 4 + column % 4;
      const bool inside = row + 1 < kRows && column + 16 < kColumns;
      EXPECT_EQ(out[at], inside ? (row + 1) * kColumns + column + 16 + 1 : 0)
          << row << " " << column;
    }
}

TEST(SimCluster, ReadsSharedMemoryOfItsNeighbour) {
  const std::string ptx = test::header() + R"(
.shared .align 4 .u32 value;
.visible .entry k(.param .u64 out)
.reqnctapercluster 4, 1, 1
{
  .reg .b32 %r<10>;
  .reg .b64 %rd<4>;
  mov.u32 %r1, %cluster_ctarank;
  mov.u32 %r2, value;
  mad.lo.u32 %r3, %r1, 10, 5;
  st.shared.u32 [%r2], %r3;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  add.u32 %r4, %r1, 1;
  and.b32 %r4, %r4, 3;
  mapa.shared::cluster.u32 %r5, %r2, %r4;
  ld.shared::cluster.u32 %r6, [%r5];
  mov.u32 %r7, %ctaid.x;
  mul.wide.u32 %rd1, %r7, 4;
  ld.param.u64 %rd2, [out];
  add.u64 %rd2, %rd2, %rd1;
  st.global.u32 [%rd2], %r6;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  ret;
}
)";
  std::vector<std::uint32_t> out(8);
  test::Memory memory;
  memory.add(out, "out");
  const void* out_at = out.data();
  const void* params[] = {&out_at};
  const auto module = Module::parse(ptx, 90);
  const LaunchResult result =
      run(*module->find("k"), {{8, 1, 1}, {64, 1, 1}, {}, 0}, params, {}, memory, {});
  ASSERT_TRUE(result.ok);
  for (unsigned i = 0; i < 8; ++i) EXPECT_EQ(out[i], (i + 1) % 4 * 10 + 5);
}

}  // namespace
}  // namespace gpk::sim
