// The kernels of native/kernels/sampling on the host: clusters and single blocks draw the tokens
// that sorting gives.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "sampling/logprobs.cuh"
#include "sampling/sample.cuh"
#include "sampling/timestamp_rules.cuh"
#include "sampling/token_counts.cuh"

namespace gpk {
namespace {

constexpr int kHostThreads = 64;

std::vector<float> normal(std::size_t count, unsigned seed, float spread) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> draw(0.0f, spread);
  std::vector<float> values(count);
  for (float& value : values) value = draw(bits);
  return values;
}

// The masses of a row after the filters, by sorting.
std::vector<Mass> filtered(const std::vector<float>& x, const SampleArgs& args) {
  const float largest = *std::max_element(x.begin(), x.end());
  const float inverse = 1.0f / args.temperature.value;
  std::vector<Mass> masses;
  std::vector<unsigned> keys;
  for (const float e : x) {
    keys.push_back(key_of(distance(e, largest, inverse)));
    masses.push_back(keys.back() < kNumKeys ? mass_of(distance(e, largest, inverse)) : 0);
  }
  const auto keep = [&](const std::vector<unsigned>& rank, Mass goal, bool count) {
    std::vector<int> order;
    for (int i = 0; i < static_cast<int>(x.size()); ++i)
      if (masses[static_cast<std::size_t>(i)] > 0) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return rank[static_cast<std::size_t>(a)] < rank[static_cast<std::size_t>(b)];
    });
    Mass sum = 0;
    unsigned last = 0;
    for (const int i : order) {
      if (sum >= goal) break;
      sum += count ? 1 : masses[static_cast<std::size_t>(i)];
      last = rank[static_cast<std::size_t>(i)];
    }
    for (std::size_t i = 0; i < x.size(); ++i)
      if (rank[i] > last) masses[i] = 0;
  };
  const auto total = [&] { return std::accumulate(masses.begin(), masses.end(), Mass{0}); };
  if (args.top_k.value > 0) keep(keys, static_cast<Mass>(args.top_k.value), true);
  if (args.top_p.value < 1.0f) keep(keys, share_of(args.top_p.value, total()), false);
  for (Mass& mass : masses)
    if (static_cast<double>(mass) < args.min_p.value * 0x1p40) mass = 0;
  if (args.typical_p.value < 1.0f) {
    double mean = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      mean += static_cast<double>(masses[i]) * keys[i] / static_cast<double>(total());
    std::vector<unsigned> away;
    for (const unsigned key : keys)
      away.push_back(static_cast<unsigned>(
          std::abs(static_cast<int>(key) - static_cast<int>(std::rint(mean)))));
    keep(away, share_of(args.typical_p.value, total()), false);
  }
  return masses;
}

SampleArgs plain_args(const std::vector<float>& x, int rows, int blocks) {
  SampleArgs args{};
  args.rows.logits = x.data();
  args.rows.width = static_cast<int>(x.size()) / rows;
  args.rows.logits_row = args.rows.width;
  args.rows.blocks = blocks;
  args.rows.slice = (args.rows.width + blocks - 1) / blocks;
  args.temperature.value = args.top_p.value = args.typical_p.value = args.repetition.value = 1.0f;
  args.seed.value = 77;
  return args;
}

template <bool kClustered>
void run(const SampleArgs& args, int rows) {
  const auto blocks = static_cast<unsigned>(args.rows.blocks);
  host_cuda::launch_clusters(static_cast<unsigned>(rows) * blocks, blocks, kHostThreads,
                             [&] { sample_rows<float, 1, kHostThreads, kClustered>(args); });
}

template <bool kClustered>
void check(SampleArgs args, const std::vector<float>& x, int rows) {
  std::vector<int> tokens(static_cast<std::size_t>(rows), -7);
  std::vector<float> probs(x.size());
  args.tokens = tokens.data();
  args.probs = probs.data();
  run<kClustered>(args, rows);
  std::vector<int> without_probs(tokens.size(), -7);  // by a short list
  SampleArgs tokens_only = args;
  tokens_only.tokens = without_probs.data();
  tokens_only.probs = nullptr;
  run<kClustered>(tokens_only, rows);
  EXPECT_EQ(without_probs, tokens);
  for (int r = 0; r < rows; ++r) {
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(r) * args.rows.width;
    const auto masses = filtered({first, first + args.rows.width}, args);
    const Mass total = std::accumulate(masses.begin(), masses.end(), Mass{0});
    const Mass target = __umul64hi(random_word(args, r), total);
    Mass sum = 0;
    int want = 0;
    while ((sum += masses[static_cast<std::size_t>(want)]) <= target) ++want;
    EXPECT_EQ(tokens[static_cast<std::size_t>(r)], want);
    for (int i = 0; i < args.rows.width; ++i)
      ASSERT_EQ(probs[static_cast<std::size_t>(r * args.rows.width + i)],
                static_cast<float>(masses[static_cast<std::size_t>(i)]) / static_cast<float>(total))
          << "row " << r << " token " << i;
  }
}

TEST(HostSample, MassOfADistance) {
  EXPECT_EQ(mass_of(0.0f), Mass{1} << 40);
  for (float d = 0.0f; d < 27.0f; d += 0.0371f)
    ASSERT_NEAR(static_cast<double>(mass_of(d)) * 0x1p-40, std::exp(-static_cast<double>(d)),
                2e-6 * std::exp(-static_cast<double>(d)) + 0x1p-39)
        << d;
  EXPECT_EQ(mass_of(31.9f), Mass{0});
  EXPECT_GE(key_of(32.0f), kNumKeys);
  EXPECT_GE(key_of(std::numeric_limits<float>::infinity()), kNumKeys);
  EXPECT_EQ(key_of(1.0f), 1u << 17);
}

TEST(HostSample, FiltersOfAClusterAndOfABlock) {
  const int rows = 2;
  const auto x = normal(2 * 1501, 3, 3.0f);
  for (int filter = 0; filter < 5; ++filter) {
    SampleArgs args = plain_args(x, rows, 4);
    if (filter == 1) args.top_k.value = 20;
    if (filter == 2) args.top_p.value = 0.8f;
    if (filter == 3) args.typical_p.value = 0.5f;
    if (filter == 4) {
      args.top_k.value = 50;
      args.top_p.value = 0.95f;
      args.min_p.value = 0.01f;
      args.temperature.value = 0.7f;
    }
    check<true>(args, x, rows);
    args.rows.blocks = 1;
    args.rows.slice = args.rows.width;
    check<false>(args, x, rows);
  }
}

TEST(HostSample, EqualLogitsAndShortSlices) {
  std::vector<float> x(130, 1.0f);
  x[129] = 0.5f;
  SampleArgs args = plain_args(x, 1, 8);  // the last block has none
  args.rows.slice = 24;
  args.top_k.value = 2;
  check<true>(args, x, 1);
  args.top_k.value = 0;
  args.top_p.value = 0.01f;
  check<true>(args, x, 1);
}

TEST(HostSample, GreedyCountsStepsAndPrefersLowIndices) {
  std::vector<float> x = normal(600, 9, 1.0f);
  x[400] = x[123] = x[599] = 9.0f;
  SampleArgs args = plain_args(x, 1, 4);
  std::vector<long long> steps{41};
  int token = 0;
  args.tokens = &token;
  args.steps = steps.data();
  args.temperature.value = 0.0f;
  run<true>(args, 1);
  EXPECT_EQ(token, 123);
  EXPECT_EQ(steps[0], 42);
}

TEST(HostSample, PenaltiesBiasAndBits) {
  const std::vector<float> x{2.0f, -2.0f, 1.0f, 3.0f, 5.0f};
  const std::vector<int> counts{1, 2, 0, 0, 0};
  const std::vector<float> bias{0.0f, 0.0f, 4.0f, 0.0f, 0.0f};
  const unsigned bits = 0b01111;
  SampleArgs args = plain_args(x, 1, 1);
  args.counts = counts.data();
  args.bias = bias.data();
  args.mask = &bits;
  args.mask_kind = TokenMask::kBits;
  args.repetition.value = 2.0f;
  args.presence.value = 0.5f;
  args.frequency.value = 0.25f;
  const LogitProcessor process(args, 0);
  EXPECT_EQ(process(x[0], 0), 0.25f);
  EXPECT_EQ(process(x[1], 1), -5.0f);
  EXPECT_EQ(process(x[2], 2), 5.0f);
  EXPECT_EQ(process(x[3], 3), 3.0f);
  EXPECT_EQ(process(x[4], 4), lowest_logit());
  EXPECT_EQ(process(std::nanf(""), 3), lowest_logit());
}

TEST(HostLogprobs, TopTokensOfACluster) {
  std::vector<float> x = normal(1000, 5, 2.0f);
  x[700] = x[20] = 8.0f;
  const int token = 77;
  float chosen = 0.0f;
  std::vector<int> ids(5);
  std::vector<float> top(5);
  LogprobArgs args{};
  args.rows = plain_args(x, 1, 4).rows;
  args.tokens = &token;
  args.chosen = &chosen;
  args.top_ids = ids.data();
  args.top = top.data();
  args.count = 5;
  host_cuda::launch_clusters(4, 4, kHostThreads,
                             [&] { logprob_rows<float, 1, kHostThreads, true>(args); });
  double total = 0;
  for (const float e : x) total += std::exp(static_cast<double>(e));
  EXPECT_NEAR(chosen, x[77] - std::log(total), 2e-6);
  std::vector<int> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return x[static_cast<std::size_t>(a)] > x[static_cast<std::size_t>(b)];
  });
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(ids[i], order[i]);
    EXPECT_NEAR(top[i], x[static_cast<std::size_t>(order[i])] - std::log(total), 2e-6);
  }
}

TEST(HostTokenCounts, SkipsWhatIsNoColumn) {
  const std::vector<int> ids{1, 1, -1, 2, 9, 0};
  std::vector<int> counts(6);
  const TokenCountArgs args{ids.data(), counts.data(), 6, 3, 3, 3};
  host_cuda::launch(1, 256, [&] { count_tokens(args); });
  EXPECT_EQ(counts, (std::vector<int>{0, 2, 0, 1, 0, 1}));
}

// --- timestamps
// -----------------------------------------------------------------------------------

struct TimestampCase {
  std::vector<int> drawn;  // so far
  std::vector<float> logits;
  std::vector<int> want;  // tokens that are left
};

// Tokens 0 to 3 are text, 4 is the end, 5 is suppressed, from 6 on timestamps.
constexpr int kEnd = 4, kFirst = 6, kVocabulary = 40;

std::vector<float> flat(float text, float stamps) {
  std::vector<float> x(kVocabulary, stamps);
  std::fill(x.begin(), x.begin() + kFirst, text);
  return x;
}

std::vector<int> tokens_from(int first, int end) {
  std::vector<int> tokens(static_cast<std::size_t>(end - first));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<int> left_after(const TimestampCase& c, int first_timestamp = kFirst) {
  const unsigned suppressed[2] = {1u << 5, 0};
  const unsigned first_suppressed[2] = {1u << 0 | 1u << kEnd, 0};
  std::vector<int> history{-1, 0, 0, 0};
  std::vector<float> out(kVocabulary);
  int token = 3;  // the end of the prompt
  TimestampArgs args{c.logits.data(), out.data(), &token,
                     history.data(),  suppressed, first_suppressed};
  args.logits_row = args.out_row = kVocabulary;
  args.history_field = args.history_row = 1;
  args.width = kVocabulary;
  args.eos = kEnd;
  args.first_timestamp = first_timestamp;
  args.max_initial = 10;
  for (std::size_t i = 0; i <= c.drawn.size(); ++i) {
    host_cuda::launch(1u, kHostThreads, [&] { timestamp_rules<float, kHostThreads>(args); });
    if (i < c.drawn.size()) token = c.drawn[i];
  }
  EXPECT_EQ(history[0], static_cast<int>(c.drawn.size()));
  std::vector<int> left;
  for (int t = 0; t < kVocabulary; ++t)
    if (out[static_cast<std::size_t>(t)] > never()) left.push_back(t);
  return left;
}

TEST(TimestampRulesKernel, TokensThatMayComeNext) {
  const auto text = [](std::vector<int> more = {}) {
    std::vector<int> tokens{0, 1, 2, 3, kEnd};
    tokens.insert(tokens.end(), more.begin(), more.end());
    return tokens;
  };
  const std::vector<float> likely_text = flat(9.0f, 0.0f);
  const std::vector<float> even = flat(1.0f, 0.0f);  // 34 timestamps outweigh any text
  const std::vector<TimestampCase> cases{
      {{}, likely_text, tokens_from(kFirst, kFirst + 11)},       // the first is a timestamp
      {{6}, likely_text, text()},                                // then text
      {{6, 1}, likely_text, text(tokens_from(7, kVocabulary))},  // none again
      {{6, 1}, even, tokens_from(7, kVocabulary)},               // together they are likelier
      {{6, 1, 9},
       flat(9.0f, 0.0f),
       [] {  // a pair, or the end
         std::vector<int> tokens{kEnd};
         const std::vector<int> rest = tokens_from(9, kVocabulary);
         tokens.insert(tokens.end(), rest.begin(), rest.end());
         return tokens;
       }()},
      {{6, 1, 9, 9}, likely_text, text()},
      {{6, 1, 9, 12, 2}, likely_text, text(tokens_from(13, kVocabulary))},
  };
  for (const TimestampCase& c : cases) EXPECT_EQ(left_after(c), c.want) << c.drawn.size();
}

TEST(TimestampRulesKernel, WithoutTimestampsOnlyListsCount) {
  const std::vector<float> x = flat(0.0f, 5.0f);
  EXPECT_EQ(left_after({{}, x, {}}, kVocabulary).size(), kVocabulary - 3u);
  EXPECT_EQ(left_after({{1}, x, {}}, kVocabulary).size(), kVocabulary - 1u);
}

}  // namespace
}  // namespace gpk
