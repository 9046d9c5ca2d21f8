#include <gtest/gtest.h>

#include <cstring>

#include "core/view.h"
#include "ops/chain/plan.h"
#include "ops/submit.h"

namespace gpk::ops::chain {
namespace {

using kernels::ChainKind;

kernels::GemvArgs gemv(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t warps = 8) {
  kernels::GemvArgs args{};
  args.m = m;
  args.n = n;
  args.k = k;
  args.k_per_split = k;
  args.k_warps = warps;
  return args;
}

void add(Recorder& recorder, const kernels::GemvArgs& args, bool gated = false, bool fits = true,
         DType dtype = DType::kBFloat16) {
  recorder.add_gemv(args, {}, dtype, gated, fits, nullptr, {});
}

int tables[8];

kernels::KvWriteArgs kv_write(int tokens) {
  kernels::KvWriteArgs args{};
  args.q_heads = 4;
  args.kv_heads = 2;
  args.num_rows = tokens * 8;
  args.dim = 64;
  args.group = 4;
  args.slots = tables;
  args.positions = tables + 1;
  args.q_out = tables + 2;
  args.k_cache.data = tables + 3;
  args.v_cache.data = tables + 4;
  return args;
}

kernels::AttentionArgs attention(int batch) {
  kernels::AttentionArgs args{};
  args.q = tables + 2;
  args.k = tables + 3;
  args.v = tables + 4;
  args.lengths = tables + 5;
  args.blocks = tables + 6;
  args.batch = batch;
  args.heads = 4;
  args.group = 2;
  args.q_len = 1;
  args.dim = 64;
  args.row_tiles = 1;
  args.blocks_row = 16;
  return args;
}

Recorder::Attention launch(int dim = 64) {
  return {{DType::kBFloat16, DType::kBFloat16, dim}, 4, 2, 100, 40000};
}

void add_layer(Recorder& recorder, int rows) {
  add(recorder, gemv(rows, 512, 1024));
  recorder.add_kv_write(kv_write(rows), DType::kBFloat16, DType::kBFloat16, 8, {});
  recorder.add_attention(attention(rows), launch(), {});
}

TEST(Chain, UnitsAreAssignedRoundRobinAcrossPhases) {
  Recorder recorder;
  add(recorder, gemv(1, 100, 1024));          // tiles of 16 rows
  add(recorder, gemv(1, 100, 256, 2), true);  // of 64
  recorder.add_kv_write(kv_write(3), DType::kBFloat16, DType::kBFloat16, 8, {});
  add(recorder, gemv(1, 16, 1024));
  const Recording r = recorder.take();
  ASSERT_EQ(r.phases.size(), 4u);
  const int units[] = {7, 2, 1, 1}, first[] = {0, 7, 0, 9}, next[] = {1, 3, 3, 4};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(r.phases[i].num_units, units[i]);
    EXPECT_EQ(r.phases[i].first_unit_offset, first[i]);
    EXPECT_EQ(r.phases[i].next_gemv, next[i]);
  }
  EXPECT_EQ(r.first_gemv, 0);
  EXPECT_EQ(r.phases[1].flags, kernels::kChainGated);
}

TEST(Chain, ACacheWriteOfOneRowIsPartOfAttention) {
  for (const int rows : {1, 2}) {
    Recorder recorder;
    add_layer(recorder, rows);
    add_layer(recorder, rows);
    const Recording r = recorder.take();
    ASSERT_EQ(r.phases.size(), rows == 1 ? 4u : 6u);
    EXPECT_EQ(r.lines.size(), r.phases.size());
    EXPECT_EQ(r.phases[1].flags & kernels::kChainWrites, rows == 1 ? kernels::kChainWrites : 0u);
    for (std::size_t i = 0; i < r.phases.size(); ++i) {
      const unsigned tables_of[] = {0, kernels::kChainWriteTables, kernels::kChainAttentionTables};
      const unsigned both = tables_of[1] | tables_of[2];
      const auto kind = static_cast<std::size_t>(r.phases[i].kind);
      EXPECT_EQ(r.phases[i].flags & both, rows == 1 && kind == 2 ? both : tables_of[kind]);
    }
    EXPECT_EQ(r.tables.rows, rows);
    EXPECT_EQ(r.tables.lengths, tables + 5);
    EXPECT_EQ(r.num_counters, 2 * rows);
    if (rows == 1) {
      kernels::KvWriteArgs write;
      std::memcpy(&write, r.phases[1].work + kernels::ChainPhase::kSecond, sizeof(write));
      EXPECT_EQ(write.q_out, tables + 2);
    }
  }
}

TEST(Chain, TablesAreThoseOfTheFirstAttention) {
  Recorder recorder;
  add_layer(recorder, 2);
  kernels::AttentionArgs other = attention(2);
  other.lengths = tables;
  recorder.add_attention(other, launch(), {});
  const Recording r = recorder.take();
  EXPECT_EQ(r.tables.lengths, tables + 5);
  EXPECT_EQ(r.phases.back().flags, 0u);
}

TEST(Chain, PhasesWithOtherArraysReadNoTables) {
  const auto flags_of = [](const kernels::KvWriteArgs& write, const kernels::AttentionArgs& args) {
    Recorder recorder;
    add_layer(recorder, 2);
    recorder.add_kv_write(write, DType::kBFloat16, DType::kBFloat16, 8, {});
    recorder.add_attention(args, launch(), {});
    const Recording r = recorder.take();
    EXPECT_NE(r.tables.lengths, nullptr);
    return r.phases[3].flags | r.phases[4].flags;
  };
  constexpr unsigned kWrite = kernels::kChainWriteTables;
  constexpr unsigned kAttention = kernels::kChainAttentionTables;
  EXPECT_EQ(flags_of(kv_write(2), attention(2)), kWrite | kAttention);
  kernels::KvWriteArgs write = kv_write(2);
  write.positions = tables;
  EXPECT_EQ(flags_of(write, attention(2)), kAttention);
  write = kv_write(2);
  write.wide = kernels::kWideSlots;
  EXPECT_EQ(flags_of(write, attention(2)), kAttention);
  EXPECT_EQ(flags_of(kv_write(3), attention(2)), kAttention);
  kernels::AttentionArgs args = attention(2);
  args.blocks = tables;
  EXPECT_EQ(flags_of(kv_write(2), args), kWrite);
  args = attention(2);
  args.blocks_row = 8;
  EXPECT_EQ(flags_of(kv_write(2), args), kWrite);
}

TEST(Chain, SequencesOfSeveralTokensReadNoTables) {
  Recorder recorder;
  recorder.add_kv_write(kv_write(4), DType::kBFloat16, DType::kBFloat16, 8, {});
  kernels::AttentionArgs args = attention(2);
  args.q_len = 2;
  recorder.add_attention(args, launch(), {});
  const Recording r = recorder.take();
  EXPECT_EQ(r.tables.lengths, nullptr);
  for (const kernels::ChainPhase& phase : r.phases) EXPECT_EQ(phase.flags, 0u);
}

TEST(Chain, WeightsAreNotWrittenBefore) {
  const Array both = Array::empty({2, 64, 64}, DType::kBFloat16, Device{}, "test");
  const Array w = slice_axis(both, 0, 0, 1, 1);
  const Array y = slice_axis(both, 0, 1, 1, 1);
  const Array* const all[] = {&w, &y};
  const Array* const written[] = {&y};
  Recorder recorder;
  recorder.add_gemv(gemv(1, 64, 64), {}, DType::kBFloat16, false, true, &w, {all, written});
  recorder.add_gemv(gemv(1, 64, 64), {}, DType::kBFloat16, false, true, &w, {all, {}});
  const auto add_y = [&] {
    recorder.add_gemv(gemv(1, 64, 64), {}, DType::kBFloat16, false, true, &y, {all, {}});
  };
  EXPECT_THROW(add_y(), NotChained);
}

TEST(Chain, LongTablesStayInMemory) {
  Recorder recorder;
  recorder.add_kv_write(kv_write(2), DType::kBFloat16, DType::kBFloat16, 8, {});
  kernels::AttentionArgs args = attention(2);
  args.blocks_row = kernels::kChainTableWords / 2;
  recorder.add_attention(args, launch(), {});
  EXPECT_EQ(recorder.take().tables.lengths, nullptr);
}

TEST(Chain, WhatCannotBeChainedIsRefused) {
  EXPECT_NO_THROW(Recorder::refuse_others("fill"));
  Recorder recorder;
  EXPECT_EQ(Recorder::current(), &recorder);
  EXPECT_THROW(Recorder::refuse_others("fill"), NotChained);
  try {
    const std::shared_ptr<Stream> stream;
    const Submission submission("cublasLtMatmul", {}, stream);
    ADD_FAILURE();
  } catch (const NotChained& refused) {
    EXPECT_STREQ(refused.what(), "cublasLtMatmul");
  }
  EXPECT_THROW(add(recorder, gemv(1, 64, 64), false, false), NotChained);
  EXPECT_THROW(add(recorder, gemv(9, 64, 64)), NotChained);
  add(recorder, gemv(8, 64, 64));
  EXPECT_THROW(add(recorder, gemv(8, 64, 64), false, true, DType::kFloat16), NotChained);
  EXPECT_THROW(recorder.add_kv_write(kv_write(1), DType::kBFloat16, DType::kBFloat16, 1, {}),
               NotChained);
  kernels::KvWriteArgs most = kv_write(1);  // 64 heads are a unit
  most.num_rows = std::int64_t{64} << 23;
  EXPECT_NO_THROW(recorder.add_kv_write(most, DType::kBFloat16, DType::kBFloat16, 8, {}));
  ++most.num_rows;
  EXPECT_THROW(recorder.add_kv_write(most, DType::kBFloat16, DType::kBFloat16, 8, {}), NotChained);
  recorder.add_attention(attention(1), launch(), {});
  EXPECT_THROW(recorder.add_attention(attention(1), launch(128), {}), NotChained);
  {
    const Recorder inner;
    EXPECT_EQ(Recorder::current(), &inner);
  }
  EXPECT_EQ(Recorder::current(), &recorder);
}

TEST(Chain, PlanFillsSharedMemory) {
  const plan::Machine h100;
  for (const int rows : {1, 8}) {
    Recorder recorder;
    add_layer(recorder, rows);
    const Recording r = recorder.take();
    const ChainPlan plan = plan_chain(r, h100);
    EXPECT_GE(plan.stages, 4);
    EXPECT_LE(plan.shared_bytes + 1024, h100.shared_bytes);
    EXPECT_GE(plan.stage_bytes, 33792);
    EXPECT_GE(plan.row_bytes, 40000);
    plan::Machine a100;
    a100.sm = 80;
    EXPECT_THROW(plan_chain(r, a100), NotChained);
    plan::Machine small = h100;
    small.shared_bytes = 101376;
    EXPECT_THROW(plan_chain(r, small), NotChained);
  }
  Recorder wide;
  add(wide, gemv(8, 512, 16384));
  EXPECT_THROW(plan_chain(wide.take(), h100), NotChained);
  Recorder heads;
  add_layer(heads, 1);
  Recording odd = heads.take();
  odd.dim = 160;
  EXPECT_THROW(plan_chain(odd, h100), NotChained);
  EXPECT_THROW(plan_chain({}, h100), NotChained);
}

}  // namespace
}  // namespace gpk::ops::chain
