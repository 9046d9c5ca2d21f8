// The attention kernel by wgmma and TMA on the host, against float64.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include "attention/prefill_wgmma.cuh"
#include "host_cuda/attention_problem.h"

namespace gpk {
namespace {

using host_attention::Problem;
using host_attention::Shape;
using host_attention::tolerance_of;

// As map_of() of ops/attention/launch.cpp: dim, rows, heads, batch (or pages).
template <class T>
TensorMap map_of(const std::vector<T>& x, const AttentionStrides& at, int dim, int heads, int rows,
                 int box_rows) {
  constexpr long long kSize = sizeof(T);
  const auto batch = static_cast<int>(static_cast<long long>(x.size()) / (dim * heads * rows));
  return host::Tensor{x.data(),
                      {at.row * kSize, at.head * kSize, at.batch * kSize},
                      {dim, rows, heads, batch},
                      {64, box_rows, 1, 1},
                      kSize}
      .map();
}

template <class T, int kDim, int kTileN, int kConsumers, int kStages, bool kSoftcap = false>
void check_prefill(const Shape& shape, unsigned blocks, int section) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "consumers clear the same values past the last key, all of them with zeros";
#endif
  Problem<T, T> problem(shape);
  problem.args.section = section;
  AttentionArgs& args = problem.args;
  const bool paged = shape.page_log2 >= 0;
  args.page_rows = paged ? std::gcd(kTileN, 1 << shape.page_log2) : kTileN;
  const auto sum = [](const std::vector<int>& sizes, int one) {
    return sizes.empty() ? one : std::accumulate(sizes.begin(), sizes.end(), 0);
  };
  const int q_rows = sum(shape.q_packed, shape.q_len);
  const int k_rows = paged ? 1 << shape.page_log2 : sum(shape.k_packed, shape.kv_len);
  const auto kv_map = [&](const std::vector<T>& x, const AttentionStrides& at) {
    return map_of(x, at, kDim, shape.kv_heads, k_rows, args.page_rows);
  };
  const TensorMap q = map_of(problem.q(), args.q_at, kDim, shape.heads, q_rows, 64 * kConsumers);
  const TensorMap k = kv_map(problem.k(), args.k_at);
  const TensorMap v = kv_map(problem.v(), args.v_at);
  host_cuda::launch(blocks, 128 * (kConsumers + 1), [&] {
    prefill_wgmma_kernel<T, kDim, kTileN, kConsumers, kStages, kSoftcap>(q, k, v, args);
  });
  problem.check(tolerance_of<T>());
}

TEST(HostPrefill, CausalTilesOfSeveralStages) {
  check_prefill<bfloat16, 64, 128, 2, 3>(
      {.batch = 1, .heads = 2, .kv_heads = 1, .q_len = 150, .kv_len = 410, .right = 0}, 2, 2);
}

TEST(HostPrefill, ThreeConsumersWindowsAndSinks) {
  check_prefill<float16, 64, 128, 3, 2>({.batch = 1,
                                         .heads = 2,
                                         .kv_heads = 2,
                                         .q_len = 200,
                                         .kv_len = 300,
                                         .left = 90,
                                         .right = 0,
                                         .sinks = true},
                                        1, 1);
}

TEST(HostPrefill, PackedSequences) {
  check_prefill<float16, 64, 128, 2, 3>({.batch = 3,
                                         .heads = 2,
                                         .kv_heads = 1,
                                         .q_len = 130,
                                         .kv_len = 131,
                                         .right = 0,
                                         .q_packed = {130, 0, 17},
                                         .k_packed = {131, 7, 5}},
                                        2, 4);
}

TEST(HostPrefill, LengthsAndSoftcap) {
  check_prefill<bfloat16, 128, 128, 2, 2, true>({.batch = 3,
                                                 .heads = 1,
                                                 .kv_heads = 1,
                                                 .q_len = 20,
                                                 .kv_len = 140,
                                                 .dim = 128,
                                                 .value_dim = 128,
                                                 .lengths = {140, 0, 33},
                                                 .softcap = 2.0f},
                                                1, 3);
}

TEST(HostPrefill, TilesOf48Keys) {
  check_prefill<float16, 256, 48, 2, 2>({.batch = 1,
                                         .heads = 1,
                                         .kv_heads = 1,
                                         .q_len = 18,
                                         .kv_len = 101,
                                         .dim = 256,
                                         .value_dim = 256},
                                        1, 1);
}

TEST(HostPrefill, SmallPages) {
  check_prefill<float16, 64, 128, 2, 3>({.batch = 2,
                                         .heads = 2,
                                         .kv_heads = 1,
                                         .q_len = 40,
                                         .kv_len = 320,
                                         .right = 0,
                                         .lengths = {300, 45},
                                         .page_log2 = 4},
                                        2, 4);
}

// Chunks of prompts: one long, one of a token, none, one with a full last page.
TEST(HostPrefill, PackedQueriesOfPages) {
  check_prefill<bfloat16, 128, 128, 2, 2>({.batch = 4,
                                           .heads = 2,
                                           .kv_heads = 1,
                                           .q_len = 131,
                                           .kv_len = 256,
                                           .dim = 128,
                                           .value_dim = 128,
                                           .left = 100,
                                           .right = 0,
                                           .lengths = {200, 129, 0, 128},
                                           .q_packed = {131, 1, 0, 3},
                                           .page_log2 = 6},
                                          2, 4);
}

TEST(HostPrefill, PagesLargerThanTiles) {
  check_prefill<float16, 64, 128, 3, 2>({.batch = 1,
                                         .heads = 1,
                                         .kv_heads = 1,
                                         .q_len = 20,
                                         .kv_len = 512,
                                         .lengths = {400},
                                         .page_log2 = 8},
                                        1, 1);
  check_prefill<float16, 256, 48, 2, 2>({.batch = 1,
                                         .heads = 1,
                                         .kv_heads = 1,
                                         .q_len = 18,
                                         .kv_len = 128,
                                         .dim = 256,
                                         .value_dim = 256,
                                         .lengths = {101},
                                         .page_log2 = 5},
                                        1, 1);
}

}  // namespace
}  // namespace gpk
