// FP8 GEMM with block scales on the host: the kernel, and the quantisation of its activations.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <random>

#include "matmul/gemm_block_scaled.cuh"
#include "quantize/quantize.cuh"

namespace gpk {
namespace {

std::vector<float> normal(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& x : values) x = draw(bits);
  return values;
}

struct Fp8Rows {
  int rows, k, pitch, groups;
  std::vector<unsigned char> values;
  std::vector<float> scales;  // [rows, groups]

  QuantizeArgs args(const std::vector<float>& from) {
    QuantizeArgs a{};
    a.w = from.data();
    a.w_row = k;
    a.values = values.data();
    a.scales = scales.data();
    a.n = rows;
    a.k = k;
    a.values_row = pitch;
    a.groups = groups;
    a.group = 128;
    a.scale_rows = 1;
    a.code = kCodeE4M3;
    a.scale_code = kScaleFloat;
    return a;
  }
  [[nodiscard]] double at(int row, int l) const {
    const auto byte = values[static_cast<std::size_t>(row * pitch + l)];
    return to_compute(float8_e4m3fn{byte});
  }
};

Fp8Rows make_rows(int rows, int k) {
  const int pitch = (k + 15) / 16 * 16;
  const int groups = (k + 127) / 128;
  return {rows,
          k,
          pitch,
          groups,
          std::vector<unsigned char>(static_cast<std::size_t>(rows * pitch)),
          std::vector<float>(static_cast<std::size_t>(rows * groups))};
}

Fp8Rows quantize_in_one_pass(const std::vector<float>& from, int rows, int k) {
  Fp8Rows q = make_rows(rows, k);
  const QuantizeArgs args = q.args(from);
  host_cuda::launch(static_cast<unsigned>((rows * q.groups + 3) / 4), kQuantizeThreads,
                    [&] { quantize_groups<float>(args); });
  return q;
}

TEST(QuantizeGroups, SameBitsAsInTwoPasses) {
  for (const int k : {128, 130, 312, 16}) {
    std::vector<float> x = normal(static_cast<std::size_t>(7 * k), 5);
    for (int l = 0; l < std::min(k, 128); ++l) x[static_cast<std::size_t>(l)] = 0.0f;
    const Fp8Rows one = quantize_in_one_pass(x, 7, k);
    Fp8Rows two = make_rows(7, k);
    const QuantizeArgs args = two.args(x);
    host_cuda::launch(static_cast<unsigned>((7 * two.groups + 3) / 4), kQuantizeThreads,
                      [&] { quantize_scales<float>(args); });
    host_cuda::launch(static_cast<unsigned>((7 * two.pitch / 4 + 127) / 128), kQuantizeThreads,
                      [&] { quantize_values<kCodeE4M3, float>(args); });
    EXPECT_EQ(one.scales, two.scales) << k;
    EXPECT_EQ(one.values, two.values) << k;
  }
}

// C [m, n] of bfloat16, or float32 sums of `splits` parts of k.
template <int kTileM, int kTileN, int kWarpM, int kWarpN>
void check_gemm(int m, int n, int k, int splits) {
  using Blocks = GemmBlockScaled<bfloat16, kTileM, kTileN, kWarpM, kWarpN, 3>;
  Fp8Rows a = quantize_in_one_pass(normal(static_cast<std::size_t>(m * k), 1), m, k);
  Fp8Rows b = quantize_in_one_pass(normal(static_cast<std::size_t>(n * k), 2), n, k);
  // Scales of b are those of the first row of 128.
  MatmulArgs args{};
  args.a = a.values.data();
  args.b = b.values.data();
  args.m = m;
  args.n = n;
  args.k = k;
  args.a_m = a.pitch;
  args.b_n = b.pitch;
  args.a_k = args.b_k = args.c_n = 1;
  args.c_m = n;
  args.num_batches = 1;
  args.splits = splits;
  args.k_per_split = (a.groups + splits - 1) / splits * 128;
  std::vector<bfloat16> c(static_cast<std::size_t>(m * n));
  std::vector<float> sums(static_cast<std::size_t>(splits * m * n));
  args.c = c.data();
  args.partial = splits > 1 ? sums.data() : nullptr;
  const EpilogueArgs epilogue{};
  const TileGrid grid{static_cast<unsigned>((m + kTileM - 1) / kTileM),
                      static_cast<unsigned>((n + kTileN - 1) / kTileN), 8, 0, 0};
  const BlockScaleArgs scales{a.scales.data(), b.scales.data(), a.groups, 1, 128 * b.groups, 1};
  host_cuda::launch({grid.tiles_m * grid.tiles_n, static_cast<unsigned>(splits), 1},
                    Blocks::Gemm::kThreads, [&] {
                      gemm_block_scaled_kernel<bfloat16, kTileM, kTileN, kWarpM, kWarpN, 3>(
                          args, epilogue, grid, scales);
                    });
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double want = 0;
      double size = 0;
      for (int l = 0; l < k; ++l) {
        const double term = a.at(i, l) * b.at(j, l) *
                            a.scales[static_cast<std::size_t>(i * a.groups + l / 128)] *
                            b.scales[static_cast<std::size_t>(j / 128 * 128 * b.groups + l / 128)];
        want += term;
        size += std::fabs(term);
      }
      const auto at = static_cast<std::size_t>(i * n + j);
      double got = to_compute(c[at]);
      if (splits > 1) {
        got = 0;
        for (int s = 0; s < splits; ++s) got += sums[static_cast<std::size_t>(s * m * n) + at];
      }
      ASSERT_NEAR(got, want, 1e-6 * size + (splits > 1 ? 0.0 : std::fabs(want) / 256))
          << i << ", " << j;
    }
}

TEST(GemmBlockScaled, SmallTile) {
  check_gemm<64, 64, 32, 32>(70, 72, 272, 1);
  check_gemm<64, 64, 32, 32>(3, 65, 16, 1);
}
TEST(GemmBlockScaled, LargeTile) { check_gemm<128, 128, 64, 32>(130, 136, 144, 1); }
TEST(GemmBlockScaled, SplitK) { check_gemm<64, 64, 32, 32>(33, 66, 400, 3); }

}  // namespace
}  // namespace gpk
