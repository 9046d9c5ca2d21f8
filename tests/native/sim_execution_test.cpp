// Control flow, memory, warps and findings of the PTX interpreter.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "sim/formats.h"
#include "sim_harness.h"

namespace gpk::sim {
namespace {

using test::header;
using test::iota;
using test::lane_kernel;
using test::run_lanes;

std::string refusal(const std::string& ptx) {
  try {
    Module::parse(ptx, 90);
  } catch (const PtxError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SimModule, RefusesByInstructionAndLine) {
  EXPECT_EQ(refusal(header() + ".entry k()\n{\nfoo.bar %r1;\nret;\n}\n"),
            "line 6: unsupported instruction 'foo.bar'");
  EXPECT_EQ(
      refusal(header() + ".entry k()\n{\n.reg .b32 %r<2>;\nadd.s64 %r1, %r1, %r1;\nret;\n}\n"),
      "line 7: add.s64: register '%r1' has 32 bits, expected 64");
  EXPECT_EQ(refusal(header() + ".entry k()\n{\nbra nowhere;\n}\n"),
            "line 6: bra: unknown label 'nowhere'");
  EXPECT_NE(refusal(header() + ".entry k()\n{\n").find("expected '}'"), std::string::npos);
}

TEST(SimModule, DescribesKernels) {
  const auto module = Module::parse(
      header() +
          ".global .align 4 .u32 x = 7;\n.entry k(.param .u8 a, .param .align 8 .b8 b[24])\n"
          ".maxntid 128, 1, 1\n{\n.shared .align 16 .b8 s[100];\n.reg .b32 %r<2>;\n"
          "mov.u32 %r1, s;\nret;\n}\n",
      90);
  const Kernel* kernel = module->find("k");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->params()[1].offset, 8u);
  EXPECT_EQ(kernel->param_bytes(), 32u);
  EXPECT_EQ(kernel->max_threads(), 128u);
  EXPECT_EQ(kernel->static_shared_bytes(), 112u);
  ASSERT_EQ(module->globals().size(), 1u);
  EXPECT_EQ(std::to_integer<int>(module->globals()[0].init[0]), 7);
}

// Collatz steps: every lane leaves its loop at another time.
TEST(SimControl, LanesDivergeAndJoin) {
  const std::string ptx = lane_kernel(R"(
    ld.global.u64 %rd4, [%rd1];
    cvt.u32.u64 %r2, %rd4;
    mov.u32 %r3, 0;
  LOOP:
    setp.le.u32 %p1, %r2, 1;
    @%p1 bra DONE;
    and.b32 %r4, %r2, 1;
    setp.eq.u32 %p2, %r4, 0;
    @%p2 bra EVEN;
    mad.lo.u32 %r2, %r2, 3, 1;
    bra NEXT;
  EVEN:
    shr.u32 %r2, %r2, 1;
  NEXT:
    add.u32 %r3, %r3, 1;
    bra LOOP;
  DONE:
    vote.sync.ballot.b32 %r5, %p1, 0xffffffff;
    cvt.u64.u32 %rd5, %r3;
    cvt.u64.u32 %rd6, %r5;
    shl.b64 %rd6, %rd6, 32;
    or.b64 %rd5, %rd5, %rd6;
    st.global.u64 [%rd2], %rd5;)");
  const auto outcome = run_lanes(ptx, iota(32));
  ASSERT_TRUE(outcome.result.ok);
  for (std::uint64_t i = 0; i < 32; ++i) {
    std::uint64_t steps = 0;
    for (std::uint64_t x = i; x > 1; x = x % 2 != 0 ? 3 * x + 1 : x / 2) ++steps;
    EXPECT_EQ(outcome.out[i], steps | 0xffffffff00000000u) << i;  // all lanes vote together
  }
}

TEST(SimControl, CallsReturnAndRecur) {
  const std::string function = R"(
.func (.param .b32 result) sum(.param .b32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  ld.param.u32 %r1, [n];
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra MORE;
  st.param.b32 [result], 0;
  ret;
MORE:
  sub.u32 %r2, %r1, 1;
  { .param .b32 a; .param .b32 b;
    st.param.b32 [a], %r2;
    call.uni (b), sum, (a);
    ld.param.b32 %r3, [b]; }
  add.u32 %r3, %r3, %r1;
  st.param.b32 [result], %r3;
  ret;
}
)";
  const auto outcome = run_lanes(lane_kernel(R"(
    { .param .b32 a; .param .b32 b;
      st.param.b32 [a], %r1;
      call.uni (b), sum, (a);
      ld.param.b32 %r2, [b]; }
    cvt.u64.u32 %rd4, %r2;
    st.global.u64 [%rd2], %rd4;)",
                                             function),
                                 iota(32));
  ASSERT_TRUE(outcome.result.ok);
  for (std::uint64_t i = 0; i < 32; ++i) EXPECT_EQ(outcome.out[i], i * (i + 1) / 2);
}

TEST(SimControl, BranchTables) {
  const auto outcome = run_lanes(lane_kernel(R"(
    rem.u32 %r2, %r1, 3;
    mov.u64 %rd4, 0;
    T: .branchtargets A, B, C;
    brx.idx %r2, T;
  A: mov.u64 %rd4, 10; bra END;
  B: mov.u64 %rd4, 11; bra END;
  C: mov.u64 %rd4, 12;
  END:
    st.global.u64 [%rd2], %rd4;)"),
                                 iota(32));
  ASSERT_TRUE(outcome.result.ok);
  for (std::uint64_t i = 0; i < 32; ++i) EXPECT_EQ(outcome.out[i], 10 + i % 3);
}

TEST(SimWarp, ShufflesMatchAndReduce) {
  const auto outcome = run_lanes(lane_kernel(R"(
    shfl.sync.bfly.b32 %r2|%p1, %r1, 5, 31, -1;
    shfl.sync.up.b32 %r3|%p2, %r1, 1, 0, -1;
    and.b32 %r4, %r1, 3;
    match.any.sync.b32 %r5, %r4, -1;
    redux.sync.add.u32 %r6, %r1, -1;
    selp.u32 %r7, 1, 0, %p2;
    mad.lo.u32 %r2, %r3, 100, %r2;
    mad.lo.u32 %r2, %r7, 100000, %r2;
    xor.b32 %r5, %r5, %r6;
    mov.b64 %rd4, {%r2, %r5};
    st.global.u64 [%rd2], %rd4;)"),
                                 iota(32));
  ASSERT_TRUE(outcome.result.ok);
  for (std::uint64_t i = 0; i < 32; ++i) {
    const std::uint64_t up = i == 0 ? 0 : i - 1;
    const std::uint64_t low = (i ^ 5) + up * 100 + (i == 0 ? 0 : 100000);
    const std::uint64_t high = (0x11111111u << (i % 4)) ^ 496u;
    EXPECT_EQ(outcome.out[i], low | high << 32) << i;
  }
}

const char kReverse[] = R"(
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, buffer;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    BARRIER
    sub.u32 %r5, 252, %r2;
    add.u32 %r5, %r3, %r5;
    ld.shared.u32 %r6, [%r5];
    cvt.u64.u32 %rd4, %r6;
    st.global.u64 [%rd2], %rd4;)";

std::string reverse(const std::string& barrier) {
  std::string body = kReverse;
  body.replace(body.find("BARRIER"), 7, barrier);
  return lane_kernel(body, ".shared .align 4 .b8 buffer[256];\n");
}

TEST(SimCheck, SharedMemoryBetweenBarriers) {
  LaunchOptions options;
  options.check = options.check_races = true;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    options.seed = seed;
    const auto outcome = run_lanes(reverse("bar.sync 0;"), iota(64), options);
    ASSERT_TRUE(outcome.result.ok);
    EXPECT_TRUE(outcome.result.findings.empty()) << outcome.result.findings[0].text;
    for (std::uint64_t i = 0; i < 64; ++i) EXPECT_EQ(outcome.out[i], 63 - i);
  }
}

TEST(SimCheck, ReportsARaceWithItsLine) {
  LaunchOptions options;
  options.check = options.check_races = true;
  const auto outcome = run_lanes(reverse(""), iota(64), options);
  ASSERT_FALSE(outcome.result.findings.empty());
  bool race = false;
  for (const Finding& one : outcome.result.findings)
    race = race || one.kind == "race" || one.kind == "uninitialised";
  EXPECT_TRUE(race);
}

TEST(SimCheck, OutOfBoundsNamesTheArray) {
  const auto outcome = run_lanes(lane_kernel("st.global.u64 [%rd2+64], %rd3;"), iota(32));
  EXPECT_FALSE(outcome.result.ok);
  ASSERT_EQ(outcome.result.findings.size(), 1u);
  const Finding& finding = outcome.result.findings[0];
  EXPECT_EQ(finding.kind, "out of bounds");
  EXPECT_EQ(finding.thread.x, 24u);
  EXPECT_NE(finding.text.find("0 bytes after the end of out (256 bytes"), std::string::npos)
      << finding.text;
}

TEST(SimCheck, MisalignedSharedTrapAndTimeout) {
  const auto kind = [](const std::string& body) {
    LaunchOptions options;
    options.max_warp_ops = 10000;
    const auto outcome =
        run_lanes(lane_kernel(body, ".shared .align 4 .b8 buffer[256];\n"), iota(32), options);
    return outcome.result.findings.empty() ? std::string("none") : outcome.result.findings[0].kind;
  };
  EXPECT_EQ(kind("ld.global.u64 %rd4, [%rd1+4];"), "misaligned");
  EXPECT_EQ(kind("mov.u32 %r2, buffer;\nld.shared.u32 %r3, [%r2+4096];"), "out of bounds");
  EXPECT_EQ(kind("setp.eq.u32 %p1, %r1, 3;\n@%p1 trap;"), "trap");
  EXPECT_EQ(kind("L: bra L;"), "timeout");
  EXPECT_EQ(kind("setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 1, 64;"), "deadlock");
}

TEST(SimCheck, DivergentBarrier) {
  LaunchOptions options;
  options.check = true;
  const auto outcome = run_lanes(lane_kernel(R"(
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra A;
    bar.sync 0;
    bra END;
  A: bar.sync 0;
  END:)"),
                                 iota(32), options);
  ASSERT_FALSE(outcome.result.findings.empty());
  EXPECT_EQ(outcome.result.findings[0].kind, "divergent barrier");
}

TEST(SimAtomics, AddsAndExchanges) {
  const auto outcome = run_lanes(lane_kernel(R"(
    ld.param.u64 %rd5, [in];
    atom.global.add.u64 %rd6, [%rd5], 3;
    mov.u32 %r2, counter;
    atom.shared.inc.u32 %r3, [%r2], 9;
    cvt.u64.u32 %rd7, %r3;
    mad.lo.u64 %rd6, %rd6, 100, %rd7;
    st.global.u64 [%rd2], %rd6;)",
                                             ".shared .align 4 .u32 counter;\n"),
                                 std::vector<std::uint64_t>(32, 0));
  ASSERT_TRUE(outcome.result.ok);
  for (std::uint64_t i = 0; i < 32; ++i) EXPECT_EQ(outcome.out[i], 3 * i * 100 + i % 10);
}

TEST(SimMbarrier, PhasesAndTransactions) {
  const auto outcome = run_lanes(lane_kernel(R"(
    mov.u32 %r2, bars;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 32;
    bar.warp.sync -1;
    @!%p1 mbarrier.arrive.shared::cta.b64 _, [%r2];
    mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r2], 0;
    ld.param.u64 %rd5, [in];
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+16], [%rd5], 16, [%r2];
    mbarrier.test_wait.parity.shared::cta.b64 %p4, [%r2], 0;
    ld.shared.u64 %rd6, [%r2+24];
    selp.u64 %rd7, 1000, 0, %p2;
    selp.u64 %rd8, 100, 0, %p3;
    selp.u64 %rd9, 10, 0, %p4;
    add.u64 %rd6, %rd6, %rd7;
    add.u64 %rd6, %rd6, %rd8;
    add.u64 %rd6, %rd6, %rd9;
    st.global.u64 [%rd2], %rd6;)",
                                             ".shared .align 16 .b8 bars[64];\n"),
                                 iota(32));
  ASSERT_TRUE(outcome.result.ok) << outcome.result.findings[0].text;
  for (const std::uint64_t value : outcome.out) EXPECT_EQ(value, 11u);
}

TEST(SimMatrix, MmaOfHalves) {
  // A = lane pattern: one row of ones times a column of twos, by the identity of fragments.
  const auto outcome = run_lanes(lane_kernel(R"(
    mov.b32 %r2, 0x3c003c00;
    mov.b32 %r3, 0x40004000;
    mov.f32 %f1, 0f3F800000;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r2, %r2, %r2, %r2}, {%r3, %r3}, {%f1, %f1, %f1, %f1};
    add.f32 %f2, %f2, %f5;
    mov.b32 %r4, %f2;
    cvt.u64.u32 %rd4, %r4;
    st.global.u64 [%rd2], %rd4;)"),
                                 iota(32));
  ASSERT_TRUE(outcome.result.ok);
  for (const std::uint64_t value : outcome.out)
    EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(value)), 66.0f);
}

// Two of four ones of a row, times twos; `metadata` is that of every lane.
test::Outcome run_sparse_mma(const std::string& metadata) {
  return run_lanes(lane_kernel(R"(
    mov.b32 %r2, 0x3c003c00;
    mov.b32 %r3, 0x40004000;
    mov.f32 %f1, 0f00000000;
    mov.b32 %r5, )" + metadata +
                               R"(;
    mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r2, %r2, %r2, %r2}, {%r3, %r3, %r3, %r3}, {%f1, %f1, %f1, %f1}, %r5, 0x1;
    mov.b32 %r4, %f2;
    cvt.u64.u32 %rd4, %r4;
    st.global.u64 [%rd2], %rd4;)"),
                   iota(32));
}

TEST(SimMatrix, SparseMma) {
  const auto outcome = run_sparse_mma("0x4e9dc844");
  ASSERT_TRUE(outcome.result.ok);
  for (const std::uint64_t value : outcome.out)
    EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(value)), 32.0f);
  const auto descending = run_sparse_mma("0x44444441");
  ASSERT_FALSE(descending.result.ok);
  EXPECT_NE(descending.result.findings[0].text.find("indices 1 and 0 of one group of four"),
            std::string::npos)
      << descending.result.findings[0].text;
}

// Elements of one, scales 2^(row - 8) and 2^column: the lanes that supply them.
TEST(SimMatrix, ScaledMma) {
  const auto outcome = run_lanes(lane_kernel(R"(
    mov.b32 %r2, 0x38383838;
    mov.f32 %f1, 0f00000000;
    and.b32 %r5, %r1, 3;
    shr.u32 %r6, %r1, 2;
    shl.b32 %r7, %r5, 3;
    add.u32 %r7, %r7, %r6;
    add.u32 %r7, %r7, 119;
    shl.b32 %r7, %r7, 8;
    add.u32 %r8, %r6, 127;
    mad.lo.u32 %r8, %r5, 50, %r8;
    mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0 {%f2, %f3, %f4, %f5}, {%r2, %r2, %r2, %r2}, {%r2, %r2}, {%f1, %f1, %f1, %f1}, %r7, {1, 0}, %r8, {0, 0};
    mov.b32 %r9, %f2;
    mov.b32 %r10, %f5;
    mov.b64 %rd4, {%r9, %r10};
    st.global.u64 [%rd2], %rd4;)"),
                                 iota(32));
  ASSERT_TRUE(outcome.result.ok) << outcome.result.findings[0].text;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const auto sum = [&](unsigned row, unsigned column) {
      return 32.0f * std::ldexp(1.0f, static_cast<int>(row) - 8 + static_cast<int>(column));
    };
    const unsigned row = lane / 4, column = lane % 4 * 2;
    const std::uint64_t bits = outcome.out[lane];
    EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(bits)), sum(row, column));
    EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32)),
              sum(row + 8, column + 1));
  }
}

}  // namespace
}  // namespace gpk::sim
