// The GEMM that dequantises tiles of packed weights, on the host, against float64 of the weights
// that dequantize gives.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <bit>

#include "host_cuda/packed_problem.h"
#include "matmul/gemm_packed.cuh"

namespace gpk {
namespace {

template <class T>
std::vector<T> rounded(const std::vector<float>& wide) {
  std::vector<T> values;
  for (const float v : wide) values.push_back(convert<T>(v));
  return values;
}

// C in T with a bias and the scales per row in the epilogue, or float32 sums of `splits` parts.
template <int kCode, class T, int kGroup, int kScale, int kTileM, int kTileN, int kWarpM,
          int kWarpN>
void check(int m, int n, int k, int splits = 1, int scale_rows = 1) {
  using Gemm = GemmPacked<kCode, T, (kGroup > 0), kScale, kTileM, kTileN, kWarpM, kWarpN, 4>;
  Packed p = quantize_rows<kCode>(normals(static_cast<std::size_t>(n * k), 1), n, k,
                                  {kCode, kScale, kGroup, scale_rows});
  const auto weights = restore<kCode>(p);
  const auto x = rounded<T>(normals(static_cast<std::size_t>(m * k), 2));
  const auto bias = rounded<T>(normals(static_cast<std::size_t>(n), 3));
  std::vector<T> c(static_cast<std::size_t>(m * n));
  std::vector<float> sums(static_cast<std::size_t>(splits * m * n));
  MatmulArgs args{};
  args.a = x.data();
  args.c = c.data();
  args.partial = splits > 1 ? sums.data() : nullptr;
  args.m = m;
  args.n = n;
  args.k = args.a_m = k;
  args.c_m = n;
  args.a_k = args.c_n = args.num_batches = 1;
  args.splits = splits;
  args.k_per_split = ((k + splits - 1) / splits + 63) / 64 * 64;
  EpilogueArgs epilogue{};
  epilogue.bias = bias.data();
  epilogue.bias_step = 1;
  epilogue.scale_b = kGroup == 0 ? p.scales.data() : nullptr;
  epilogue.scale_b_step = 1;
  const TileGrid grid{static_cast<unsigned>((m + kTileM - 1) / kTileM),
                      static_cast<unsigned>((n + kTileN - 1) / kTileN), 8, 0,
                      kEpilogueBias | (kGroup == 0 ? kEpilogueScales : 0u)};
  const PackedTileArgs packed{p.values.data(),
                              p.scales.data(),
                              p.zeros.data(),
                              kScale == kScaleE4M3 ? &p.tensor_scale : nullptr,
                              n,
                              p.values_row,
                              p.groups,
                              scale_rows == 128 ? 7 : 0,
                              kGroup == 0 ? 63 : std::countr_zero(static_cast<unsigned>(kGroup))};
  host_cuda::launch(
      {grid.tiles_m * grid.tiles_n, static_cast<unsigned>(splits), 1}, Gemm::kThreads, [&] {
        gemm_packed_kernel<kCode, T, (kGroup > 0), kScale, kTileM, kTileN, kWarpM, kWarpN, 4>(
            args, epilogue, grid, packed);
      });
  const double unit = kIsSame<T, bfloat16> ? 0x1p-8 : 0x1p-11;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double want = 0;
      double size = 0;
      for (int l = 0; l < k; ++l) {
        float w = weights[static_cast<std::size_t>(j * k + l)];
        if (kGroup > 0) w = to_compute(convert<T>(w));
        const double term =
            static_cast<double>(w) * to_compute(x[static_cast<std::size_t>(i * k + l)]);
        want += term;
        size += std::fabs(term);
      }
      const auto at = static_cast<std::size_t>(i * n + j);
      double got = 0;
      if (splits == 1) {
        got = to_compute(c[at]);
        want += to_compute(bias[static_cast<std::size_t>(j)]);
      }
      for (int s = 0; s < splits && splits > 1; ++s)
        got += sums[static_cast<std::size_t>(s * m * n) + at];
      ASSERT_NEAR(got, want, 2e-6 * size + (splits > 1 ? 0.0 : unit * std::fabs(want)))
          << i << ", " << j;
    }
}

template <int kCode, class T, int kGroup, int kScale = kScaleFloat>
void check_small(int m, int n, int k, int splits = 1, int scale_rows = 1) {
  check<kCode, T, kGroup, kScale, 64, 64, 32, 32>(m, n, k, splits, scale_rows);
}

TEST(HostGemmPacked, Int4) {
  check_small<kCodeInt4, bfloat16, 128>(66, 68, 264);
  check_small<kCodeInt4, float16, 32>(5, 17, 72);
  check_small<kCodeInt4, bfloat16, 0>(17, 65, 136);
  check_small<kCodeUint4, bfloat16, 64>(33, 20, 200);
  check_small<kCodeUint4, float16, 0>(9, 16, 136);
}

TEST(HostGemmPacked, Int8) {
  check_small<kCodeInt8, bfloat16, 0>(20, 66, 136);
  check_small<kCodeInt8, float16, 128>(9, 16, 264);
  check_small<kCodeUint8, bfloat16, 32>(9, 16, 168);
  check_small<kCodeUint8, float16, 0>(9, 16, 72);
}

TEST(HostGemmPacked, Floats) {
  check_small<kCodeE4M3, bfloat16, 0>(9, 16, 136);
  check_small<kCodeE4M3, bfloat16, 128>(9, 140, 264, 1, 128);
  check_small<kCodeE5M2, float16, 0>(9, 16, 72);
  check_small<kCodeE2M1, bfloat16, 16, kScaleE4M3>(9, 20, 152);
  check_small<kCodeE2M1, float16, 32, kScaleE8M0>(9, 16, 168);
  check_small<kCodeE4M3, bfloat16, 32, kScaleE8M0>(9, 16, 168);
  check_small<kCodeNf4, bfloat16, 64>(9, 16, 200);
}

TEST(HostGemmPacked, Tiles) {
  check<kCodeInt4, bfloat16, 128, kScaleFloat, 128, 128, 64, 32>(66, 132, 200);
  check<kCodeInt8, float16, 0, kScaleFloat, 128, 64, 64, 32>(66, 36, 328);
}

TEST(HostGemmPacked, SplitK) { check_small<kCodeInt4, bfloat16, 128>(33, 40, 720, 3); }

}  // namespace
}  // namespace gpk
