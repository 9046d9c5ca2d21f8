// The attention kernels by mma.sync and without tensor cores on the host, against float64.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include "attention/decode_mma.cuh"
#include "attention/simt.cuh"
#include "attention/tile_mma.cuh"
#include "host_cuda/attention_problem.h"

namespace gpk {
namespace {

using host_attention::Problem;
using host_attention::Shape;
using host_attention::tolerance_of;

struct Splits {
  int split_log2 = 6;  // keys
  int splits_log2 = 0;
};

// As ops/attention/launch.cpp does.
template <class T, class Kv, int kDim, bool kSoftcap = false, int kStages = 2>
void check_decode(const Shape& shape, Splits splits = {}) {
  Problem<T, Kv> problem(shape);
  AttentionArgs& args = problem.args;
  args.split_log2 = splits.split_log2;
  args.splits_log2 = splits.splits_log2;
  args.row_tiles = (args.group * args.q_len + kDecodeRows - 1) / kDecodeRows;
  const int block_log2 = splits.split_log2 + splits.splits_log2;
  const int blocks = (args.kv_len + (1 << block_log2) - 1) >> block_log2;
  const int tiles = shape.batch * shape.kv_heads * args.row_tiles;
  std::vector<unsigned> counters(static_cast<std::size_t>(tiles), 0u);
  std::vector<float> parts(
      static_cast<std::size_t>((tiles * blocks << splits.splits_log2) * kDecodeRows * (kDim + 4)));
  args.counters = counters.data();
  args.parts = parts.data();
  const auto unsigned_of = [](int x) { return static_cast<unsigned>(x); };
  host_cuda::launch(
      {unsigned_of(blocks), unsigned_of(shape.kv_heads * args.row_tiles), unsigned_of(shape.batch)},
      128, [&] { decode_mma_kernel<T, Kv, kDim, kDim, 4, kStages, kSoftcap>(args); });
  problem.check(tolerance_of<T>());
  EXPECT_EQ(counters, std::vector<unsigned>(counters.size(), 0u));
}

template <class T, int kDim, int kTileN>
void check_tile(const Shape& shape) {
  Problem<T, T> problem(shape);
  const auto tiles = static_cast<unsigned>((shape.q_len + 63) / 64);
  host_cuda::launch({tiles, static_cast<unsigned>(shape.heads), static_cast<unsigned>(shape.batch)},
                    128, [&] { attention_tile_kernel<T, kDim, kTileN>(problem.args); });
  problem.check(tolerance_of<T>());
}

template <class T, class Kv, int kDim>
void check_simt(const Shape& shape) {
  Problem<T, Kv> problem(shape);
  const auto tiles = static_cast<unsigned>((shape.q_len + 15) / 16);
  host_cuda::launch({tiles, static_cast<unsigned>(shape.heads), static_cast<unsigned>(shape.batch)},
                    128, [&] { attention_simt_kernel<T, Kv, kDim>(problem.args); });
  problem.check(tolerance_of<T>());
}

constexpr int kDim = 64;

TEST(HostDecode, OneSplit) {
  check_decode<float16, float16, kDim>({.kv_len = 37});
  check_decode<bfloat16, bfloat16, kDim>({.kv_len = 1});
}

TEST(HostDecode, SplitsAreMerged) {
  check_decode<bfloat16, bfloat16, kDim>({.kv_len = 203});
  check_decode<float16, float16, kDim>({.kv_len = 270}, {6, 1});
}

TEST(HostDecode, LengthsOfSequences) {
  check_decode<float16, float16, kDim>({.batch = 4, .kv_len = 150, .lengths = {150, 0, 65, 300}});
}

TEST(HostDecode, QueriesOfSeveralTiles) {
  check_decode<float16, float16, kDim>(
      {.batch = 2, .heads = 6, .q_len = 7, .kv_len = 140, .right = 0, .lengths = {139, 5}});
}

TEST(HostDecode, WindowsAndSinks) {
  check_decode<bfloat16, bfloat16, kDim>(
      {.q_len = 3, .kv_len = 210, .left = 70, .right = 0, .lengths = {210, 66}, .sinks = true});
  check_decode<float16, float16, kDim>(
      {.kv_len = 140, .left = 3, .right = 0, .lengths = {0, 140}, .sinks = true});
}

TEST(HostDecode, Pages) {
  check_decode<bfloat16, bfloat16, kDim>(
      {.batch = 3, .kv_len = 170, .lengths = {170, 3, 64}, .page_log2 = 4});
  check_decode<float16, float16, kDim>(
      {.q_len = 2, .kv_len = 256, .left = 100, .right = 0, .lengths = {129, 240}, .page_log2 = 6},
      {6, 1});
}

TEST(HostDecode, EightBitCache) {
  check_decode<bfloat16, float8_e4m3fn, kDim>({.kv_len = 83, .v_scale = 0.5f});
  check_decode<float16, float8_e4m3fn, 96>({.q_len = 2,
                                            .kv_len = 150,
                                            .dim = 96,
                                            .value_dim = 96,
                                            .right = 0,
                                            .lengths = {150, 20},
                                            .page_log2 = 4,
                                            .sinks = true});
}

TEST(HostDecode, SoftcapAndOtherDims) {
  check_decode<float16, float16, 32, true>(
      {.kv_len = 100, .dim = 32, .value_dim = 32, .softcap = 2.0f});
  check_decode<bfloat16, bfloat16, 96, false, 3>({.kv_len = 90, .dim = 96, .value_dim = 96});
}

TEST(HostTile, LengthsAndDims) {
  check_tile<float16, 64, 64>({.batch = 1, .q_len = 67, .kv_len = 70, .dim = 40, .value_dim = 56});
  check_tile<bfloat16, 32, 64>(
      {.batch = 3, .q_len = 5, .kv_len = 65, .dim = 32, .value_dim = 32, .lengths = {65, 0, 3}});
}

TEST(HostTile, CausalWindowsAndSinks) {
  check_tile<bfloat16, 64, 32>(
      {.batch = 1, .q_len = 70, .kv_len = 75, .left = 20, .right = 0, .sinks = true});
  // More queries than keys: the first ones see none.
  check_tile<float16, 64, 64>({.batch = 1, .q_len = 30, .kv_len = 11, .right = 0});
}

TEST(HostTile, MasksAndBiases) {
  check_tile<float16, 64, 64>(
      {.q_len = 9, .kv_len = 66, .softcap = 3.0f, .mask = true, .bias = true});
}

TEST(HostTile, PackedSequences) {
  check_tile<float16, 64, 64>({.batch = 3,
                               .q_len = 66,
                               .kv_len = 70,
                               .right = 0,
                               .q_packed = {66, 0, 3},
                               .k_packed = {70, 5, 33}});
}

TEST(HostTile, Pages) {
  check_tile<bfloat16, 64, 64>(
      {.q_len = 20, .kv_len = 96, .right = 0, .lengths = {81, 20}, .page_log2 = 4});
}

TEST(HostSimt, EveryOption) {
  check_simt<float, float, 64>({.heads = 2,
                                .kv_heads = 1,
                                .q_len = 19,
                                .kv_len = 45,
                                .dim = 37,
                                .value_dim = 53,
                                .left = 12,
                                .right = 4,
                                .lengths = {45, 9},
                                .softcap = 4.0f,
                                .sinks = true,
                                .mask = true,
                                .bias = true});
  check_simt<float, float8_e4m3fn, 64>({.heads = 2,
                                        .kv_heads = 2,
                                        .q_len = 3,
                                        .kv_len = 40,
                                        .dim = 30,
                                        .value_dim = 34,
                                        .right = 0,
                                        .lengths = {40, 0},
                                        .page_log2 = 3,
                                        .v_scale = 2.0f});
}

// Elements of a mask further apart than 32 bits count: one on the heap, one among the variables.
TEST(HostSimt, MaskOfWideStrides) {
  Problem<float, float> problem({.batch = 1, .heads = 1, .kv_heads = 1, .kv_len = 2});
  static bool last = false;
  const auto first = std::make_unique<bool>(true);
  problem.args.mask = first.get();
  problem.args.mask_step =
      reinterpret_cast<std::intptr_t>(&last) - reinterpret_cast<std::intptr_t>(first.get());
  host_cuda::launch(1, 128, [&] { attention_simt_kernel<float, float, 64>(problem.args); });
  for (std::size_t i = 0; i < kDim; ++i) EXPECT_EQ(problem.out()[i], problem.v()[i]);
}

TEST(HostSimt, PackedSequences) {
  check_simt<bfloat16, bfloat16, 128>({.batch = 3,
                                       .heads = 2,
                                       .kv_heads = 1,
                                       .q_len = 17,
                                       .kv_len = 34,
                                       .dim = 70,
                                       .value_dim = 128,
                                       .right = 0,
                                       .q_packed = {0, 17, 2},
                                       .k_packed = {3, 34, 0}});
}

}  // namespace
}  // namespace gpk
