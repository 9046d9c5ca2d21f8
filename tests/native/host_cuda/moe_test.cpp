// The kernels of native/kernels/moe, and the tiles of grouped GEMMs, on the host.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "matmul/group_tiles.cuh"
#include "moe/permute.cuh"
#include "moe/route.cuh"
#include "moe/unpermute.cuh"

namespace gpk {
namespace {

using Ints = std::vector<int>;

// --- tiles of groups ----------------------------------------------------------------------------

template <int kTileM, int kTileN>
void check_tiles(const Ints& sizes, int m, int n, int raster) {
  using Tiles = GroupTiles<kTileM, kTileN>;
  GroupTilesArgs args{};
  args.sizes = sizes.data();
  args.sizes_step = 1;
  args.m = m;
  args.groups = static_cast<int>(sizes.size());
  args.tiles_n = (n + kTileN - 1) / kTileN;
  args.raster = raster;
  std::vector<GroupEnds> table(sizes.size() + 1);
  host_cuda::launch(1, 96, [&] { Tiles::fill(table.data(), args); });

  Ints begins;
  Ints ends;
  std::int64_t row = 0;
  for (const int size : sizes) {
    begins.push_back(static_cast<int>(std::min<std::int64_t>(row, m)));
    row += std::max(size, 0);
    ends.push_back(static_cast<int>(std::min<std::int64_t>(row, m)));
  }
  begins.push_back(ends.empty() ? 0 : ends.back());
  ends.push_back(m);
  std::vector<int> seen(static_cast<std::size_t>(m) * args.tiles_n, 0);
  for (int unit = 0; unit < Tiles::num_units(table.data(), args); ++unit) {
    const GroupTile at = Tiles::at(table.data(), args, unit);
    const auto g = static_cast<std::size_t>(at.group);
    ASSERT_LT(g, ends.size());
    EXPECT_EQ(at.end, ends[g]);
    EXPECT_GE(at.m, begins[g]);
    EXPECT_LT(at.m, at.end);
    EXPECT_EQ(at.n % kTileN, 0);
    for (int r = at.m; r < std::min(at.m + kTileM, at.end); ++r)
      ++seen[static_cast<std::size_t>(r) * args.tiles_n + at.n / kTileN];
  }
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }))
      << "every row of every column of tiles is computed once";
}

TEST(HostGroupTiles, EveryRowOnce) {
  check_tiles<64, 64>({100, 0, 1, 64, 65}, 230, 200, 8);
  check_tiles<128, 256>({0, 0, 0}, 0, 10, 8);
  check_tiles<128, 256>({0, 0, 0}, 130, 10, 8);
  check_tiles<64, 128>({}, 70, 129, 2);
  check_tiles<64, 128>({1000}, 1000, 300, 4);
}

TEST(HostGroupTiles, SizesThatDoNotFit) {
  check_tiles<64, 64>({-3, 66, 1000, 9}, 70, 5, 8);
  check_tiles<64, 64>({2147483647, 2147483647}, 100, 64, 8);
  check_tiles<64, 64>({10, 20}, 100, 64, 8);
}

TEST(HostGroupTiles, ManyGroups) {
  std::mt19937 bits(3);
  for (const int groups : {31, 32, 33, 200, 512}) {
    Ints sizes;
    for (int g = 0; g < groups; ++g) sizes.push_back(static_cast<int>(bits() % 5) * 30 / 2);
    const int m = std::accumulate(sizes.begin(), sizes.end(), 7);
    check_tiles<64, 64>(sizes, m, 150, 3);
    check_tiles<256, 128>(sizes, m, 150, 8);
  }
}

// --- route --------------------------------------------------------------------------------------

struct RouteCase {
  int tokens, experts, top_k;
  int scoring = kScoreSoftmax;
  bool renormalize = false;
  bool bias = false;
  int num_groups = 1, top_groups = 1;
};

double score_of(const std::vector<double>& row, std::size_t e, int scoring) {
  if (scoring == kScoreLogits) return row[e];
  if (scoring == kScoreSigmoid) return 1 / (1 + std::exp(-row[e]));
  double sum = 0;
  for (const double x : row) sum += std::exp(x);
  return std::exp(row[e]) / sum;
}

template <int kPer>
void check_route(const RouteCase& c) {
  std::mt19937 bits(static_cast<unsigned>(c.experts));
  std::vector<float> logits(static_cast<std::size_t>(c.tokens) * c.experts);
  for (float& x : logits) x = static_cast<float>(static_cast<int>(bits() % 257) - 128) / 32;
  std::vector<float> bias(static_cast<std::size_t>(c.experts));
  for (float& x : bias) x = static_cast<float>(bits() % 1000) / 999;
  std::vector<float> weights(static_cast<std::size_t>(c.tokens) * c.top_k);
  Ints experts(weights.size(), -1);
  MoeRouteArgs args{};
  args.logits = logits.data();
  args.bias = c.bias ? bias.data() : nullptr;
  args.weights = weights.data();
  args.experts = experts.data();
  args.logits_row = c.experts;
  args.tokens = c.tokens;
  args.num_experts = c.experts;
  args.top_k = c.top_k;
  args.scoring = c.scoring;
  args.renormalize = c.renormalize ? 1 : 0;
  args.num_groups = c.num_groups;
  args.top_groups = c.top_groups;
  args.scale = 2.0f;
  host_cuda::launch(static_cast<unsigned>(c.tokens + 3) / 4, kRouteBlock,
                    [&] { moe_route_rows<float, kPer>(args); });
  const int size = c.experts / c.num_groups;
  for (int t = 0; t < c.tokens; ++t) {
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(t) * c.experts;
    const std::vector<double> row(first, first + c.experts);
    std::vector<double> values;
    for (std::size_t e = 0; e < row.size(); ++e)
      values.push_back(c.bias ? score_of(row, e, c.scoring) + bias[e] : row[e]);
    std::vector<std::pair<double, int>> groups;
    for (int g = 0; g < c.num_groups; ++g) {
      std::vector<double> inside(values.begin() + g * size, values.begin() + (g + 1) * size);
      std::sort(inside.rbegin(), inside.rend());
      groups.emplace_back(-(inside[0] + (c.bias && size > 1 ? inside[1] : 0)), g);
    }
    std::sort(groups.begin(), groups.end());
    std::vector<std::pair<double, int>> ranks;
    for (int g = 0; g < c.top_groups; ++g)
      for (int i = 0; i < size; ++i) {
        const int e = groups[static_cast<std::size_t>(g)].second * size + i;
        ranks.emplace_back(-values[static_cast<std::size_t>(e)], e);
      }
    std::sort(ranks.begin(), ranks.end());
    double sum = 0;
    for (int j = 0; j < c.top_k; ++j)
      sum += score_of(row, static_cast<std::size_t>(ranks[static_cast<std::size_t>(j)].second),
                      c.scoring);
    for (int j = 0; j < c.top_k; ++j) {
      const auto at = static_cast<std::size_t>(t) * c.top_k + j;
      const int expert = ranks[static_cast<std::size_t>(j)].second;
      ASSERT_EQ(experts[at], expert) << "token " << t << ", choice " << j;
      const double score = score_of(row, static_cast<std::size_t>(expert), c.scoring);
      EXPECT_NEAR(weights[at], 2 * score / (c.renormalize ? sum : 1), 1e-5);
    }
  }
}

TEST(HostMoe, Route) {
  check_route<1>({6, 8, 2});
  check_route<1>({3, 31, 31, kScoreSigmoid, true});
  check_route<4>({5, 100, 8, kScoreSoftmax, true});
  check_route<2>({4, 33, 3, kScoreLogits});
  check_route<8>({2, 256, 8, kScoreSigmoid, true, true});
}

TEST(HostMoe, RouteInGroups) {
  check_route<8>({3, 256, 6, kScoreSoftmax, false, false, 8, 3});
  check_route<8>({3, 256, 8, kScoreSigmoid, true, true, 8, 4});
  check_route<1>({3, 16, 2, kScoreSigmoid, false, true, 16, 5});
}

// --- permute and back ---------------------------------------------------------------------------

struct Permuted {
  Ints sizes, row_map, slots;
  std::vector<unsigned> rows;
};

template <class Index>
Permuted permute_on_host(const std::vector<Index>& ids, int top_k, int experts, int words,
                         bool few) {
  const int tokens = static_cast<int>(ids.size()) / top_k;
  std::vector<unsigned> x(static_cast<std::size_t>(tokens) * words);
  std::iota(x.begin(), x.end(), 0u);
  Permuted out{Ints(static_cast<std::size_t>(experts), -1), Ints(ids.size(), -1),
               Ints(ids.size(), -1), std::vector<unsigned>(ids.size() * words, ~0u)};
  MoePermuteArgs args{};
  args.experts = ids.data();
  args.sizes = out.sizes.data();
  args.row_map = out.row_map.data();
  args.slots = out.slots.data();
  args.x = x.data();
  args.rows = out.rows.data();
  args.x_row = args.words = words;
  args.tokens = tokens;
  args.num_slots = static_cast<long long>(ids.size());
  args.num_experts = experts;
  args.top_k = top_k;
  args.num_tiles = (static_cast<int>(ids.size()) + kPermuteBlock - 1) / kPermuteBlock;
  args.lanes = 64;
  if (few) {
    host_cuda::launch(static_cast<unsigned>(tokens) + 1, kPermuteBlock,
                      [&] { moe_permute_few<Index, unsigned>(args); });
    return out;
  }
  Ints counts(static_cast<std::size_t>(experts + 1) * args.num_tiles, -1);
  Ints totals(static_cast<std::size_t>(experts) + 1, -1);
  args.counts = counts.data();
  args.totals = totals.data();
  const auto tiles = static_cast<unsigned>(args.num_tiles);
  host_cuda::launch(tiles, kPermuteBlock, [&] { moe_count<Index>(args); });
  host_cuda::launch(static_cast<unsigned>(experts) + 1, kPermuteBlock, [&] { moe_scan(args); });
  host_cuda::launch(tiles, kPermuteBlock, [&] { moe_place<Index>(args); });
  host_cuda::launch(static_cast<unsigned>(tokens + 3) / 4, kPermuteBlock,
                    [&] { moe_copy<unsigned>(args); });
  return out;
}

template <class Index>
void check_permute(const std::vector<Index>& ids, int top_k, int experts, int words, bool few) {
  const Permuted got = permute_on_host(ids, top_k, experts, words, few);
  const auto bucket = [&](int slot) {
    const Index id = ids[static_cast<std::size_t>(slot)];
    return id >= 0 && id < experts ? static_cast<int>(id) : experts;
  };
  Ints order(ids.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return bucket(x) < bucket(y); });
  EXPECT_EQ(got.slots, order);
  for (std::size_t place = 0; place < order.size(); ++place) {
    const int slot = order[place];
    ASSERT_EQ(got.row_map[static_cast<std::size_t>(slot)], static_cast<int>(place));
    for (int w = 0; w < words; ++w)
      ASSERT_EQ(got.rows[place * words + w], static_cast<unsigned>(slot / top_k * words + w));
  }
  for (int e = 0; e < experts; ++e)
    EXPECT_EQ(got.sizes[static_cast<std::size_t>(e)],
              std::count_if(order.begin(), order.end(), [&](int s) { return bucket(s) == e; }));
}

template <class Index>
std::vector<Index> random_ids(int count, int experts, int beyond) {
  std::mt19937 bits(static_cast<unsigned>(count));
  std::vector<Index> ids;
  for (int i = 0; i < count; ++i)
    ids.push_back(static_cast<Index>(bits() % static_cast<unsigned>(experts + 2 * beyond)) -
                  beyond);
  return ids;
}

TEST(HostMoe, PermuteFew) {
  check_permute(random_ids<int>(24, 8, 0), 2, 8, 5, true);
  check_permute(random_ids<long long>(30, 4, 2), 3, 4, 300, true);
  check_permute(std::vector<int>(64, 3), 32, 1024, 1, true);
}

TEST(HostMoe, PermuteMany) {
  check_permute(random_ids<int>(1200, 30, 0), 4, 30, 3, false);
  check_permute(random_ids<long long>(600, 70, 5), 1, 70, 66, false);
  check_permute(std::vector<int>(514, 0), 2, 3, 1, false);
}

template <class T, int kV>
void check_unpermute(int tokens, int top_k, int width, bool weighted) {
  std::mt19937 bits(static_cast<unsigned>(width));
  const int num_rows = tokens * top_k;
  std::vector<T> rows(static_cast<std::size_t>(num_rows) * width);
  for (T& x : rows) x = convert<T>(static_cast<float>(bits() % 64) / 8);
  Ints row_map(static_cast<std::size_t>(num_rows));
  for (int& place : row_map)
    place = static_cast<int>(bits() % static_cast<unsigned>(num_rows + 2)) - 1;
  std::vector<float> weights(row_map.size());
  for (float& w : weights) w = static_cast<float>(bits() % 16) / 16;
  std::vector<T> out(static_cast<std::size_t>(tokens) * width);
  MoeUnpermuteArgs args{};
  args.rows = rows.data();
  args.row_map = row_map.data();
  args.weights = weighted ? weights.data() : nullptr;
  args.out = out.data();
  args.rows_row = args.out_row = args.width = width;
  args.num_rows = num_rows;
  args.tokens = tokens;
  args.top_k = top_k;
  args.lanes = 16;
  host_cuda::launch(static_cast<unsigned>(tokens + 15) / 16, kPermuteBlock,
                    [&] { moe_unpermute_rows<T, kV>(args); });
  for (int t = 0; t < tokens; ++t)
    for (int c = 0; c < width; ++c) {
      double want = 0;
      for (int j = 0; j < top_k; ++j) {
        const auto at = static_cast<std::size_t>(t) * top_k + j;
        const int place = row_map[at];
        if (place < 0 || place >= num_rows) continue;
        want += static_cast<double>(to_compute(rows[static_cast<std::size_t>(place) * width + c])) *
                (weighted ? weights[at] : 1.0f);
      }
      ASSERT_NEAR(to_compute(out[static_cast<std::size_t>(t) * width + c]), want,
                  (sizeof(T) == 4 ? 1e-5 : 1e-2) * (1 + want));
    }
}

TEST(HostMoe, Unpermute) {
  check_unpermute<float, 4>(20, 2, 64, true);
  check_unpermute<float, 1>(3, 5, 33, false);
  check_unpermute<bfloat16, 8>(9, 8, 256, true);
  check_unpermute<float16, 1>(1, 1, 7, true);
}

}  // namespace
}  // namespace gpk
