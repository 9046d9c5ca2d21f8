// The grouped GEMM by mma.sync on the host: small integers, exact in every type.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "matmul/grouped_mma.cuh"

namespace gpk {
namespace {

struct GroupedShape {
  std::vector<int> sizes;
  int spare;  // rows of no group
  int n, k;
};

template <class T>
std::vector<T> small_integers(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<T> values(count);
  for (T& value : values) value = convert<T>(static_cast<float>(static_cast<int>(bits() % 3) - 1));
  return values;
}

template <class T, int kTile, int kTileK, int kWarp, bool kKMajor>
void check_grouped(const GroupedShape& shape) {
  const int m = std::accumulate(shape.sizes.begin(), shape.sizes.end(), shape.spare);
  const auto at = [](int row, int pitch, int column) {
    return static_cast<std::size_t>(row) * pitch + column;
  };
  const int groups = static_cast<int>(shape.sizes.size());
  const auto a = small_integers<T>(at(m, shape.k, 0), 1);
  const auto b = small_integers<T>(at(groups * shape.n, shape.k, 0), 2);
  std::vector<T> c(at(m, shape.n, 0), convert<T>(99.0f));
  MatmulArgs args{};
  args.a = a.data();
  args.b = b.data();
  args.c = c.data();
  args.m = m;
  args.n = shape.n;
  args.k = args.a_m = shape.k;
  args.a_k = args.c_n = 1;
  args.b_n = kKMajor ? shape.k : 1;
  args.b_k = kKMajor ? 1 : shape.n;
  args.c_m = shape.n;
  GroupTilesArgs tiles{};
  tiles.sizes = shape.sizes.data();
  tiles.sizes_step = 1;
  tiles.m = m;
  tiles.groups = groups;
  tiles.tiles_n = (shape.n + kTile - 1) / kTile;
  tiles.raster = 2;
  const long long b_step = static_cast<long long>(shape.n) * shape.k;
  host_cuda::launch(2, kTile / kWarp * (kTile / kWarp) * 32, [&] {
    grouped_mma_kernel<T, kTile, kTile, kTileK, kWarp, kWarp, 3, kKMajor>(args, tiles, b_step);
  });
  int row = 0;
  for (int g = 0; g <= groups; ++g) {
    const int end = g < groups ? row + shape.sizes[static_cast<std::size_t>(g)] : m;
    for (; row < end; ++row)
      for (int j = 0; j < shape.n; ++j) {
        float want = 0;
        for (int l = 0; g < groups && l < shape.k; ++l)
          want +=
              to_compute(a[at(row, shape.k, l)]) *
              to_compute(
                  b[kKMajor ? at(g * shape.n + j, shape.k, l) : at(g * shape.k + l, shape.n, j)]);
        ASSERT_EQ(to_compute(c[at(row, shape.n, j)]), want)
            << "group " << g << ", row " << row << ", column " << j;
      }
  }
}

TEST(HostGroupedMma, GroupsThatEndAnywhere) {
  check_grouped<bfloat16, 64, 64, 32, true>({{10, 0, 65, 1, 64}, 9, 72, 136});
  check_grouped<float16, 64, 64, 32, false>({{3, 70}, 0, 80, 64});
  check_grouped<bfloat16, 128, 32, 64, true>({{130, 0, 5}, 3, 136, 72});
  check_grouped<float, 64, 32, 32, false>({{3, 70}, 0, 36, 40});
}

TEST(HostGroupedMma, NoGroupHasRows) {
  check_grouped<bfloat16, 64, 64, 32, true>({{0, 0}, 70, 64, 64});
}

}  // namespace
}  // namespace gpk
