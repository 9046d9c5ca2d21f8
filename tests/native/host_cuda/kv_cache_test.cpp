// The kernels of native/kernels/kv_cache on the host, against float64.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <random>

#include "kv_cache/pages.cuh"
#include "kv_cache/write.cuh"

namespace gpk {
namespace {

template <class T>
std::vector<T> normal(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> draw(0.0f, 1.0f);
  std::vector<T> values(count);
  for (T& value : values) value = convert<T>(draw(bits));
  return values;
}

struct Shape {
  int tokens = 5;
  int q_heads = 3;
  int kv_heads = 2;
  int dim = 16;
  int half = 8;
};
constexpr int kPage = 4;
constexpr int kBlocks = 3;
constexpr int kTableRows = 10;

template <class T, class C, int kV>
void check_write(const Shape& s, float offset, double tolerance) {
  const auto size = [&](int heads) { return static_cast<std::size_t>(s.tokens * heads * s.dim); };
  const auto q = normal<T>(size(s.q_heads), 1);
  const auto k = normal<T>(size(s.kv_heads), 2);
  const auto v = normal<T>(size(s.kv_heads), 3);
  const auto weight = normal<float>(static_cast<std::size_t>(s.dim), 4);
  const auto cos = normal<float>(static_cast<std::size_t>(kTableRows * s.half), 5);
  const auto sin = normal<float>(static_cast<std::size_t>(kTableRows * s.half), 6);
  const std::vector<int> slots{7, -1, 0, 12, 11};
  const std::vector<long long> positions{0, 1, 9, 3, 5};
  std::vector<T> out(q.size());
  std::vector<C> k_cache(static_cast<std::size_t>(kBlocks * kPage * s.kv_heads * s.dim), C{});
  std::vector<C> v_cache = k_cache;
  constexpr bool kFp8 = !kIsSame<T, C>;
  const float scale = kFp8 ? 0.01f : 1.0f;

  KvWriteArgs args{};
  const long long token = s.kv_heads * s.dim;
  args.q = {q.data(), s.q_heads * s.dim, s.dim};
  args.k = {k.data(), token, s.dim};
  args.v = {v.data(), token, s.dim};
  args.q_out = out.data();
  args.q_out_token = s.q_heads * s.dim;
  args.q_out_head = s.dim;
  args.k_cache = {k_cache.data(), nullptr, kPage * token, token, s.dim, scale, 0};
  args.v_cache = {v_cache.data(), &scale, kPage * token, token, s.dim, 1.0f, 0};
  args.slots = slots.data();
  args.positions = positions.data();
  args.cos = cos.data();
  args.sin = sin.data();
  args.q_weight = args.k_weight = weight.data();
  args.num_rows = static_cast<long long>(s.tokens) * (s.q_heads + 2 * s.kv_heads);
  args.num_slots = kBlocks * kPage;
  args.table_rows = kTableRows;
  args.cos_row = args.sin_row = s.half;
  args.eps = 1e-5f;
  args.offset = offset;
  args.q_heads = s.q_heads;
  args.kv_heads = s.kv_heads;
  args.dim = s.dim;
  args.half = s.half;
  args.page = kPage;
  args.group = 4;
  args.wide = kWideTables | kWideQWeight | kWideKWeight | kWidePositions;
  const auto blocks = static_cast<unsigned>((args.num_rows * args.group + 255) / 256);
  host_cuda::launch(blocks, 256, [&] { kv_write<T, C, kV>(args); });

  const auto prepared = [&](const std::vector<T>& x, int heads, int t, int h) {
    const std::size_t first = static_cast<std::size_t>((t * heads + h) * s.dim);
    std::vector<double> row;
    double mean = 0;
    for (int i = 0; i < s.dim; ++i) {
      row.push_back(to_compute(x[first + static_cast<std::size_t>(i)]));
      mean += row.back() * row.back() / s.dim;
    }
    for (int i = 0; i < s.dim; ++i)
      row[static_cast<std::size_t>(i)] *=
          (offset + weight[static_cast<std::size_t>(i)]) / std::sqrt(mean + 1e-5);
    for (int j = 0; j < s.half; ++j) {
      double& a = row[static_cast<std::size_t>(j)];
      double& b = row[static_cast<std::size_t>(s.half + j)];
      const auto at = static_cast<std::size_t>(positions[static_cast<std::size_t>(t)] * s.half + j);
      const double turned = a * cos[at] - b * sin[at];
      b = b * cos[at] + a * sin[at];
      a = turned;
    }
    return row;
  };
  std::vector<double> want_k(k_cache.size());
  std::vector<double> want_v(k_cache.size());
  for (int t = 0; t < s.tokens; ++t) {
    for (int h = 0; h < s.q_heads; ++h) {
      const auto row = prepared(q, s.q_heads, t, h);
      for (int i = 0; i < s.dim; ++i)
        ASSERT_NEAR(to_compute(out[static_cast<std::size_t>((t * s.q_heads + h) * s.dim + i)]),
                    row[static_cast<std::size_t>(i)],
                    2e-2 * (1 + std::fabs(row[static_cast<std::size_t>(i)])));
    }
    const int slot = slots[static_cast<std::size_t>(t)];
    if (slot < 0 || slot >= kBlocks * kPage) continue;
    for (int h = 0; h < s.kv_heads; ++h) {
      const auto row = prepared(k, s.kv_heads, t, h);
      for (int i = 0; i < s.dim; ++i) {
        const auto to = static_cast<std::size_t>((slot * s.kv_heads + h) * s.dim + i);
        want_k[to] = row[static_cast<std::size_t>(i)];
        want_v[to] = to_compute(v[static_cast<std::size_t>((t * s.kv_heads + h) * s.dim + i)]);
      }
    }
  }
  for (std::size_t i = 0; i < want_k.size(); ++i) {
    const double limit = kFp8 ? 4.48 : 1e30;
    ASSERT_NEAR(to_compute(k_cache[i]) * scale, std::clamp(want_k[i], -limit, limit),
                tolerance * (1 + std::fabs(want_k[i])));
    ASSERT_NEAR(to_compute(v_cache[i]) * scale, std::clamp(want_v[i], -limit, limit),
                tolerance * (1 + std::fabs(want_v[i])));
  }
}

TEST(HostKvWrite, NormAndRotation) {
  check_write<float, float, 4>({}, 0.0f, 1e-5);
  check_write<float, float, 1>({5, 3, 2, 18, 7}, 1.0f, 1e-5);
  check_write<bfloat16, bfloat16, 8>({5, 2, 1, 64, 16}, 0.0f, 2e-2);
}

TEST(HostKvWrite, Fp8) { check_write<bfloat16, float8_e4m3fn, 8>({}, 0.5f, 7e-2); }

TEST(HostPages, CopyGatherAndSlots) {
  std::vector<int> cache(4 * 6);
  for (int i = 0; i < 24; ++i) cache[static_cast<std::size_t>(i)] = i;
  std::vector<int> other = cache;
  const std::vector<int> pairs{0, 2, 1, 4, -1, 0};
  PageCopyArgs copy{};
  copy.caches[0] = cache.data();
  copy.caches[1] = other.data();
  copy.pairs = pairs.data();
  copy.block[0] = copy.block[1] = copy.words = 6;
  copy.num_blocks = 4;
  copy.chunks = 1;
  host_cuda::launch(3, 256, [&] { copy_pages<int>(copy); });  // the first cache
  EXPECT_EQ(cache[12], 0);
  EXPECT_EQ(cache[17], 5);
  EXPECT_EQ(cache[18], 18);
  EXPECT_EQ(other[12], 12);

  const std::vector<int> tables{3, 1, 2, -1};
  const std::vector<int> lengths{5, 3};
  std::vector<int> out(2 * 6 * 2, -1);
  PageGatherArgs gather{};
  gather.cache = other.data();
  gather.tables = tables.data();
  gather.lengths = lengths.data();
  gather.out = out.data();
  gather.block = 6;  // pages of 3 tokens, 2 words each
  gather.slot = gather.words = 2;
  gather.num_tokens = 12;
  gather.num_blocks = 4;
  gather.length = 6;
  gather.max_blocks = 2;
  gather.page = 3;
  host_cuda::launch(2, 256, [&] { gather_pages<int>(gather); });
  EXPECT_EQ(out, (std::vector<int>{18, 19, 20, 21, 22, 23, 6, 7, 8, 9, 0, 0,  //
                                   12, 13, 14, 15, 16, 17, 0, 0, 0, 0, 0, 0}));

  const std::vector<int> positions{4, 7};
  std::vector<int> slots(2);
  const SlotMappingArgs mapping{
      tables.data(), positions.data(), nullptr, slots.data(), 2, 2, 2, 3, 0};
  host_cuda::launch(1, 256, [&] { slot_mapping(mapping); });
  EXPECT_EQ(slots, (std::vector<int>{4, -1}));
}

}  // namespace
}  // namespace gpk
