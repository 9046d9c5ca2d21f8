// Packed weights on the host: codes of every format, and the GEMV kernel against float64.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include "host_cuda/packed_problem.h"
#include "matmul/gemv_packed.cuh"

namespace gpk {
namespace {

// Half of the largest step of the code, over its largest value.
double half_step(int code) {
  switch (code) {
    case kCodeInt4: return 0.5 / 7;
    case kCodeUint4: return 1.0 / 15;
    case kCodeInt8: return 0.5 / 127;
    case kCodeUint8: return 1.0 / 255;
    case kCodeE4M3: return 16.0 / 448;
    case kCodeE5M2: return 1.0 / 14;
    case kCodeE2M1: return 1.0 / 6;
    default: return 0.16;
  }
}

template <int kCode, class T, int kTilesM, int kTilesN, int kGroup, int kScale>
void check(int m, int n, int k, int scale_rows = 1) {
  const Format format{kCode, kScale, kGroup, scale_rows};
  const auto w = normals(static_cast<std::size_t>(n) * static_cast<std::size_t>(k), 1);
  Packed p = quantize_rows<kCode>(w, n, k, format);
  const auto back = restore<kCode>(p);
  float amax = 0.0f;
  for (const float v : w) amax = std::max(amax, std::fabs(v));
  for (std::size_t i = 0; i < w.size(); ++i)
    ASSERT_NEAR(back[i], w[i], amax * half_step(kCode) * (kScale == kScaleE8M0 ? 2.1 : 1.1)) << i;

  const auto wide = normals(static_cast<std::size_t>(m) * static_cast<std::size_t>(k), 2);
  std::vector<T> x;
  for (const float v : wide) x.push_back(convert<T>(v));
  std::vector<T> y(static_cast<std::size_t>(m) * static_cast<std::size_t>(n));
  PackedGemvArgs args{};
  args.gemv.x = x.data();
  args.gemv.w = p.values.data();
  args.gemv.y = y.data();
  args.gemv.m = m;
  args.gemv.n = n;
  args.gemv.k = args.gemv.x_m = k;
  args.gemv.w_pitch = p.values_row;
  args.gemv.y_m = n;
  args.gemv.y_n = 1;
  args.gemv.k_per_split = (k + 1023) / 1024 * 1024;
  args.gemv.k_warps = kGemvWarps;
  args.scales = p.scales.data();
  args.zeros = p.zeros.data();
  args.tensor_scale = kScale == kScaleE4M3 ? &p.tensor_scale : nullptr;
  args.scale_row = p.groups;
  args.scale_shift = scale_rows == 128 ? 7 : 0;
  EpilogueArgs epilogue;
  if (kGroup == 0) {
    args.gemv.flags = kEpilogueScales;
    epilogue.scale_b = p.scales.data();
    epilogue.scale_b_step = 1;
  }
  host_cuda::launch(
      static_cast<unsigned>((n + 16 * kTilesN - 1) / (16 * kTilesN)), kGemvThreads, [&] {
        gemv_packed_kernel<kCode, T, kTilesM, kTilesN, kGroup, kScale, false>(args, epilogue);
      });
  const double unit = kIsSame<T, bfloat16> ? 0x1p-8 : 0x1p-11;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double want = 0, magnitude = 0;
      for (int l = 0; l < k; ++l) {
        const double product =
            static_cast<double>(to_compute(x[static_cast<std::size_t>(i * k + l)])) *
            back[static_cast<std::size_t>(j * k + l)];
        want += product;
        magnitude += std::fabs(product);
      }
      // nf4's table is rounded to T.
      const double weights = kCode == kCodeNf4 ? unit * magnitude : 0.0;
      ASSERT_NEAR(to_compute(y[static_cast<std::size_t>(i * n + j)]), want,
                  unit * std::fabs(want) + 1e-5 * magnitude + weights)
          << i << ", " << j;
    }
}

TEST(HostPacked, Int4) {
  check<kCodeInt4, bfloat16, 1, 2, 128, kScaleFloat>(1, 36, 1288);
  check<kCodeInt4, float16, 2, 1, 64, kScaleFloat>(11, 17, 264);
  check<kCodeInt4, bfloat16, 1, 2, 32, kScaleFloat>(3, 32, 168);
  check<kCodeInt4, bfloat16, 1, 1, 0, kScaleFloat>(2, 16, 136);
}

TEST(HostPacked, Int4WithZeroPoints) {
  check<kCodeUint4, bfloat16, 1, 2, 128, kScaleFloat>(5, 36, 392);
  check<kCodeUint4, float16, 1, 1, 32, kScaleFloat>(8, 16, 136);
  check<kCodeUint4, float16, 1, 1, 0, kScaleFloat>(8, 16, 136);
}

TEST(HostPacked, Int8) {
  check<kCodeInt8, bfloat16, 1, 2, 0, kScaleFloat>(1, 36, 648);
  check<kCodeInt8, float16, 4, 1, 32, kScaleFloat>(30, 16, 136);
  check<kCodeInt8, bfloat16, 1, 1, 128, kScaleFloat>(7, 16, 264);
  check<kCodeUint8, bfloat16, 1, 1, 64, kScaleFloat>(7, 16, 264);
  check<kCodeUint8, float16, 1, 1, 0, kScaleFloat>(7, 16, 264);
}

TEST(HostPacked, Fp8) {
  check<kCodeE4M3, bfloat16, 1, 2, 0, kScaleFloat>(2, 36, 136);
  check<kCodeE4M3, float16, 1, 1, 0, kScaleFloat>(2, 16, 136);
  check<kCodeE4M3, bfloat16, 1, 2, 128, kScaleFloat>(2, 160, 264, 128);
  check<kCodeE5M2, bfloat16, 1, 1, 0, kScaleFloat>(2, 16, 72);
  check<kCodeE5M2, float16, 1, 1, 0, kScaleFloat>(2, 16, 72);
}

TEST(HostPacked, BlockFloats) {
  check<kCodeE2M1, bfloat16, 1, 2, 16, kScaleE4M3>(3, 36, 408);
  check<kCodeE2M1, float16, 1, 1, 16, kScaleE4M3>(3, 16, 136);
  check<kCodeE2M1, bfloat16, 1, 1, 32, kScaleE8M0>(3, 16, 168);
  check<kCodeE4M3, float16, 1, 1, 32, kScaleE8M0>(3, 16, 168);
  check<kCodeNf4, bfloat16, 1, 1, 64, kScaleFloat>(3, 16, 200);
  check<kCodeNf4, float16, 8, 1, 64, kScaleFloat>(60, 16, 200);
}

// Rows sorted by expert: the same bits as a call for each expert.
template <int kCode, int kGroup>
void check_groups(const std::vector<int>& sizes, int n, int k) {
  const Format format{kCode, kScaleFloat, kGroup};
  const int experts = static_cast<int>(sizes.size());
  int m = 0;
  for (const int size : sizes) m += size;
  const auto w = normals(static_cast<std::size_t>(experts * n) * static_cast<std::size_t>(k), 3);
  Packed p = quantize_rows<kCode>(w, experts * n, k, format);
  const auto back = restore<kCode>(p);
  const auto wide = normals(static_cast<std::size_t>(m) * static_cast<std::size_t>(k), 4);
  std::vector<bfloat16> x;
  for (const float v : wide) x.push_back(convert<bfloat16>(v));
  std::vector<bfloat16> y(static_cast<std::size_t>(m) * static_cast<std::size_t>(n));
  PackedGemvArgs args{};
  args.gemv.x = x.data();
  args.gemv.w = p.values.data();
  args.gemv.y = y.data();
  args.gemv.m = m;
  args.gemv.n = n;
  args.gemv.k = args.gemv.x_m = k;
  args.gemv.w_pitch = p.values_row;
  args.gemv.y_m = n;
  args.gemv.y_n = 1;
  args.gemv.k_per_split = 1024;
  args.gemv.k_warps = kGemvWarps;
  args.scales = p.scales.data();
  args.zeros = p.zeros.data();
  args.scale_row = p.groups;
  args.sizes = sizes.data();
  args.w_expert = n * p.values_row;
  args.scale_expert = n * p.groups;
  const EpilogueArgs epilogue;
  host_cuda::launch(
      {static_cast<unsigned>((n + 15) / 16), 1, static_cast<unsigned>(experts)}, kGemvThreads, [&] {
        gemv_packed_kernel<kCode, bfloat16, 1, 1, kGroup, kScaleFloat, true>(args, epilogue);
      });
  int row = 0;
  for (int e = 0; e < experts; ++e)
    for (int i = 0; i < sizes[static_cast<std::size_t>(e)]; ++i, ++row)
      for (int j = 0; j < n; ++j) {
        double want = 0, magnitude = 0;
        for (int l = 0; l < k; ++l) {
          const double product =
              static_cast<double>(to_compute(x[static_cast<std::size_t>(row * k + l)])) *
              back[static_cast<std::size_t>((e * n + j) * k + l)];
          want += product;
          magnitude += std::fabs(product);
        }
        ASSERT_NEAR(to_compute(y[static_cast<std::size_t>(row * n + j)]), want,
                    0x1p-8 * std::fabs(want) + 1e-5 * magnitude)
            << row << ", " << j;
      }
}

TEST(HostPacked, Experts) {
  check_groups<kCodeInt4, 32>({3, 0, 11, 1}, 20, 136);
  check_groups<kCodeUint4, 128>({0, 9}, 16, 136);
  check_groups<kCodeUint8, 0>({2, 3}, 16, 72);
}

TEST(HostPacked, CodesOfEveryValue) {
  for (unsigned code = 0; code < 16; ++code) {
    EXPECT_EQ(encode<kCodeE2M1>(decode<kCodeE2M1>(code), 0.0f), code);
    EXPECT_EQ(encode<kCodeNf4>(decode<kCodeNf4>(code), 0.0f), code);
    EXPECT_EQ(encode<kCodeInt4>(decode<kCodeInt4>(code), 0.0f), code);
  }
  for (const auto& [x, want] : {std::pair{0.25f, 0.0f},
                                {0.75f, 1.0f},
                                {1.25f, 1.0f},
                                {1.75f, 2.0f},
                                {2.5f, 2.0f},
                                {3.5f, 4.0f},
                                {5.0f, 4.0f},
                                {9.0f, 6.0f}})
    EXPECT_EQ(e2m1_value(encode_e2m1(x)), want) << x;
}

}  // namespace
}  // namespace gpk
