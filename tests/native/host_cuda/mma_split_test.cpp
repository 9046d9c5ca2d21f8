// float32 by three TF32 products, on the host: as accurate as float32, and right about infinities.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <random>

#include "matmul/gemm_split.cuh"

namespace gpk {
namespace {

struct Product {
  int m, n, k;
  bool a_k_major, b_k_major;
  std::vector<float> a, b, c;

  [[nodiscard]] float a_at(int i, int l) const {
    return a[static_cast<std::size_t>(a_k_major ? i * k + l : l * m + i)];
  }
  [[nodiscard]] float b_at(int l, int j) const {
    return b[static_cast<std::size_t>(b_k_major ? j * k + l : l * n + j)];
  }
};

Product make_product(int m, int n, int k, bool a_k_major, bool b_k_major) {
  Product p{m, n, k, a_k_major, b_k_major, {}, {}, {}};
  std::mt19937 bits(7);
  std::normal_distribution<float> draw;
  p.a.resize(static_cast<std::size_t>(m * k));
  p.b.resize(static_cast<std::size_t>(k * n));
  p.c.resize(static_cast<std::size_t>(m * n));
  for (float& x : p.a) x = draw(bits);
  for (float& x : p.b) x = draw(bits);
  return p;
}

template <bool kAKMajor, bool kBKMajor>
void multiply(Product& p) {
  MatmulArgs args{};
  args.a = p.a.data();
  args.b = p.b.data();
  args.c = p.c.data();
  args.m = p.m;
  args.n = p.n;
  args.k = args.k_per_split = p.k;
  args.a_m = kAKMajor ? p.k : 1;
  args.a_k = kAKMajor ? 1 : p.m;
  args.b_n = kBKMajor ? p.k : 1;
  args.b_k = kBKMajor ? 1 : p.n;
  args.c_m = p.n;
  args.c_n = args.num_batches = args.splits = 1;
  const EpilogueArgs epilogue{};
  const TileGrid grid{static_cast<unsigned>((p.m + 63) / 64),
                      static_cast<unsigned>((p.n + 63) / 64), 8, 0, 0};
  host_cuda::launch(grid.tiles_m * grid.tiles_n, 128,
                    [&] { gemm_split_kernel<kAKMajor, kBKMajor, 16>(args, epilogue, grid); });
}

// Root mean squares of the errors of C and of sums in float32.
std::pair<double, double> errors(const Product& p) {
  double ours = 0;
  double plain = 0;
  for (int i = 0; i < p.m; ++i)
    for (int j = 0; j < p.n; ++j) {
      double want = 0;
      float sum = 0;
      for (int l = 0; l < p.k; ++l) {
        want += static_cast<double>(p.a_at(i, l)) * p.b_at(l, j);
        sum = std::fma(p.a_at(i, l), p.b_at(l, j), sum);
      }
      const double error = p.c[static_cast<std::size_t>(i * p.n + j)] - want;
      ours += error * error;
      plain += (sum - want) * (sum - want);
    }
  return {std::sqrt(ours), std::sqrt(plain)};
}

TEST(MmaSplit, AsAccurateAsFloat32) {
  Product p = make_product(68, 36, 232, true, true);
  multiply<true, true>(p);
  const auto [ours, plain] = errors(p);
  EXPECT_GT(ours, 0.0);
  EXPECT_LE(ours, 2.0 * plain);
  Product q = make_product(36, 20, 132, false, false);
  multiply<false, false>(q);
  const auto [ours_q, plain_q] = errors(q);
  EXPECT_LE(ours_q, 2.0 * plain_q);
}

TEST(MmaSplit, InfinitiesAndLargestNumbers) {
  Product p = make_product(4, 4, 8, true, true);
  for (float& x : p.b) x = 0.5f;
  const float inf = std::numeric_limits<float>::infinity();
  const float most = std::numeric_limits<float>::max();
  for (int l = 0; l < 8; ++l) {
    p.a[static_cast<std::size_t>(l)] = l == 3 ? inf : 1.0f;
    p.a[static_cast<std::size_t>(8 + l)] = l == 3 ? -inf : l == 4 ? inf : 1.0f;
    p.a[static_cast<std::size_t>(16 + l)] = l == 3 ? most : 0.0f;
    p.a[static_cast<std::size_t>(24 + l)] = 1.0f;
  }
  p.b[24] = inf;  // of the last column
  multiply<true, true>(p);
  EXPECT_EQ(p.c[0], inf);
  EXPECT_TRUE(std::isnan(p.c[4]));
  EXPECT_NEAR(p.c[8] / most, 0.5f, 1e-6);
  EXPECT_EQ(p.c[12], 4.0f);
  EXPECT_EQ(p.c[15], inf);
}

}  // namespace
}  // namespace gpk
