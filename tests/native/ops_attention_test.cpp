#include <gtest/gtest.h>

#include "ops/attention/plan.h"

namespace gpk::ops::attention {
namespace {

AttentionDesc desc(std::int64_t q_len, std::int64_t kv_len, std::int64_t dim = 128) {
  AttentionDesc d;
  d.heads = 32;
  d.kv_heads = 8;
  d.q_len = q_len;
  d.kv_len = kv_len;
  d.dim = d.value_dim = dim;
  return d;
}

plan::Machine machine(int sm, bool jit = true) {
  plan::Machine m;
  m.sm = sm;
  m.jit = jit;
  return m;
}

std::string plan_of(const AttentionDesc& d, int sm = 90, bool jit = true) {
  return to_string(plan_attention(d, machine(sm, jit)));
}

TEST(AttentionPlan, PrefillOnHopper) {
  EXPECT_EQ(plan_of(desc(4096, 4096)), "prefill(dim=128, tile=128x128, stages=2)");
  EXPECT_EQ(plan_of(desc(4096, 4096, 256)), "prefill(dim=256, tile=128x48, stages=2)");
  EXPECT_EQ(plan_of(desc(4096, 4096)), plan_of(desc(4096, 8192)));
  EXPECT_EQ(plan_of(desc(4096, 4096), 80), "tile(dim=128, tile=64x64)");
  EXPECT_EQ(plan_of(desc(4096, 4096), 90, false), "tile(dim=128, tile=64x64)");
}

// Whatever the chunk of a prompt, its bits are those of one kernel.
TEST(AttentionPlan, ChunksOfPromptsInPages) {
  AttentionDesc d = desc(4096, 8192);
  d.paged = true;
  EXPECT_EQ(plan_of(d), "prefill(dim=128, tile=128x128, stages=2)");
  d.packed = true;
  for (const std::int64_t q_len : {1, 5, 16, 17, 4096}) {
    d.q_len = q_len;
    EXPECT_EQ(plan_of(d), "prefill(dim=128, tile=128x128, stages=2)");
  }
  EXPECT_EQ(plan_of(d, 80), "tile(dim=128, tile=64x64)");
}

TEST(AttentionPlan, ShortSequencesHaveSmallerTiles) {
  AttentionDesc d = desc(1024, 1024, 64);
  EXPECT_EQ(plan_of(d), "prefill(dim=64, tile=192x128, stages=2)");
  d.causal = true;
  EXPECT_EQ(plan_of(d), "prefill(dim=64, tile=128x128, stages=3)");
  d.q_len = d.kv_len = 16384;
  EXPECT_EQ(plan_of(d), "prefill(dim=64, tile=192x128, stages=2)");
}

TEST(AttentionPlan, DecodeWhereRowsAreFew) {
  EXPECT_EQ(plan_of(desc(1, 4096)), "decode(dim=128, split=256, splits=1)");
  EXPECT_EQ(plan_of(desc(16, 4096)), "decode(dim=128, split=256, splits=1)");
  EXPECT_EQ(plan_of(desc(17, 4096)), "prefill(dim=128, tile=128x128, stages=2)");
  AttentionDesc narrow = desc(1, 4096);
  narrow.kv_dtype = DType::kFloat8E4M3FN;
  EXPECT_EQ(plan_of(narrow, 90), "decode(dim=128, split=256, splits=1)");
  EXPECT_EQ(plan_of(narrow, 80), "simt(dim=128)");  // no conversions of FP8
}

TEST(AttentionPlan, SplitsDoNotDependOnTheBatch) {
  for (const std::int64_t room : {100, 4096, 4097, 100000}) {
    const int split = plan_attention(desc(1, room), machine(90)).split_log2;
    for (const std::int64_t batch : {2, 7, 64, 1000}) {
      AttentionDesc d = desc(1, room);
      d.batch = batch;
      EXPECT_EQ(plan_attention(d, machine(90)).split_log2, split);
    }
  }
}

TEST(AttentionPlan, OthersTakeTheGeneralKernels) {
  AttentionDesc d = desc(4096, 4096);
  d.masked = true;
  EXPECT_EQ(plan_of(d), "tile(dim=128, tile=64x64)");
  d.dim = 40;
  d.value_dim = 200;
  EXPECT_EQ(plan_of(d), "tile(dim=256, tile=64x32)");
  d.dim = 41;
  EXPECT_EQ(plan_of(d), "simt(dim=256)");
  d = desc(4096, 4096);
  d.dtype = d.kv_dtype = DType::kFloat32;
  EXPECT_EQ(plan_of(d), "simt(dim=128)");
  EXPECT_EQ(plan_of(d, 90, false), "simt(dim=256)");
}

// 4096 packed sequences in a million rows, the longest of which is unknown.
TEST(AttentionPlan, PrefillHasFewerUnitsThan32BitsCount) {
  AttentionDesc d = desc(1 << 20, 1 << 20, 64);
  d.packed = true;
  d.heads = 64;
  d.batch = 2047;
  EXPECT_EQ(plan_attention(d, machine(90)).engine, Engine::kPrefill);
  d.batch = 4096;
  EXPECT_EQ(plan_attention(d, machine(90)).engine, Engine::kTile);
}

TEST(AttentionPlan, DecodeFitsTheGrid) {
  AttentionDesc d = desc(16, 100);
  d.heads = d.kv_heads = 65535;
  EXPECT_EQ(plan_attention(d, machine(90)).engine, Engine::kDecode);
  d.q_len = 17;  // two tiles of rows
  EXPECT_NE(plan_attention(d, machine(90)).engine, Engine::kDecode);
}

TEST(AttentionPlan, FitsTheSharedMemoryOfEveryMachine) {
  for (const plan::Machine& m : plan::typical_machines())
    for (const std::int64_t q_len : {1, 5, 300})
      for (const std::int64_t dim : {20, 32, 64, 96, 128, 160, 192, 256})
        for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
          AttentionDesc d = desc(q_len, 1000, dim);
          d.dtype = d.kv_dtype = dtype;
          const AttentionPlan plan = plan_attention(d, m);
          EXPECT_LE(shared_bytes(d, plan) + 1024, m.shared_bytes)
              << to_string(plan) << " on " << to_string(m);
          EXPECT_GE(plan.dim, dim);
        }
}

}  // namespace
}  // namespace gpk::ops::attention
