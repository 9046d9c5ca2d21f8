// The pure parts of Whisper: configs, plans, beam search, segments, alignment.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "base/text.h"
#include "llm/model_plan.h"
#include "llm/weight_layout.h"
#include "speech/alignment.h"
#include "speech/beam_search.h"
#include "speech/whisper_config.h"
#include "speech/whisper_segments.h"

namespace gpk::speech {
namespace {

const std::string kSmall = R"("model_type": "whisper", "d_model": 64, "encoder_layers": 2,
  "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 2,
  "encoder_ffn_dim": 128, "decoder_ffn_dim": 96, "vocab_size": 100, "num_mel_bins": 8,
  "max_source_positions": 30, "max_target_positions": 16)";

WhisperConfig config_of(const std::string& text) {
  return read_whisper_config(parse_json("{" + text + "}", "config.json"));
}

// kSmall with another value of a field that it has.
std::string with(const std::string& field, const std::string& value) {
  const std::size_t at = kSmall.find(": ", kSmall.find("\"" + field + "\"")) + 2;
  const std::size_t end = kSmall.find_first_of(",)", at);
  std::string text = kSmall;
  return text.replace(at, std::min(end, text.size()) - at, value);
}

std::string refusal(const std::string& text) {
  try {
    config_of(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(WhisperConfig, HasTheNumbersOfBothParts) {
  const WhisperConfig c = config_of(kSmall);
  EXPECT_EQ(c.encoder.num_layers, 2);
  EXPECT_EQ(c.encoder.head_dim, 16);
  EXPECT_EQ(c.encoder.num_mels, 8);
  EXPECT_EQ(c.encoder.max_positions, 30);
  EXPECT_EQ(c.decoder.head_dim, 32);
  EXPECT_EQ(c.decoder.source_positions, 30);
  EXPECT_EQ(c.decoder.max_positions, 16);
  EXPECT_TRUE(c.decoder.tie_word_embeddings);
  EXPECT_EQ(c.decoder.embedding_scale, 1.0);
  // Which Transformers does not use.
  EXPECT_EQ(config_of(kSmall + R"(, "scale_embedding": true)").decoder.embedding_scale, 1.0);
}

TEST(WhisperConfig, RefusalsNameTheField) {
  EXPECT_NE(refusal("").find("has no d_model"), std::string::npos);
  EXPECT_NE(refusal(with("encoder_attention_heads", "5")).find("encoder_attention_heads"),
            std::string::npos);
  EXPECT_NE(refusal(R"("model_type": "gpt2")").find("expected whisper"), std::string::npos);
  EXPECT_NE(refusal(kSmall + R"(, "activation_function": "relu")").find("expected gelu"),
            std::string::npos);
  EXPECT_NE(refusal(with("num_mel_bins", "0")).find("num_mel_bins is 0"), std::string::npos);
  EXPECT_NE(refusal(with("max_source_positions", "-1")).find("max_source_positions is -1"),
            std::string::npos);
}

TEST(WhisperPlan, OfTheEncoder) {
  const WhisperConfig c = config_of(kSmall);
  const llm::ModelSpec& spec = whisper_encoder_spec();
  const std::string text = llm::to_string(llm::plan_model(spec, c.encoder), spec, c.encoder);
  EXPECT_EQ(text.substr(0, text.find("layer 1")),
            "hidden = gelu(conv2(gelu(conv1(mel))))^T\n"
            "hidden = hidden + positions[position]\n"
            "layer 0: normed = layernorm(hidden, attention_norm, attention_norm_bias)\n"
            "layer 0: qkv = normed @ qkv^T + qkv_bias\n"
            "layer 0: heads = attention(qkv)\n"
            "layer 0: hidden = heads @ output^T + output_bias + hidden\n"
            "layer 0: normed = layernorm(hidden, mlp_norm, mlp_norm_bias)\n"
            "layer 0: inner = gelu(normed @ up^T + up_bias)\n"
            "layer 0: hidden = inner @ down^T + down_bias + hidden\n");
  EXPECT_TRUE(text.ends_with("selected = layernorm(hidden, final_norm, final_norm_bias)\n"));
}

TEST(WhisperPlan, OfTheDecoder) {
  const WhisperConfig c = config_of(kSmall);
  const llm::ModelSpec& spec = whisper_decoder_spec();
  EXPECT_EQ(llm::to_string(llm::plan_model(spec, c.decoder), spec, c.decoder),
            "hidden = embedding[tokens]\n"
            "hidden = hidden + positions[position]\n"
            "layer 0: normed = layernorm(hidden, attention_norm, attention_norm_bias)\n"
            "layer 0: qkv = normed @ qkv^T + qkv_bias\n"
            "layer 0: query, cache = write(qkv)\n"
            "layer 0: heads = attention(query, cache)\n"
            "layer 0: hidden = heads @ output^T + output_bias + hidden\n"
            "layer 0: normed = layernorm(hidden, cross_norm, cross_norm_bias)\n"
            "layer 0: query = normed @ cross_query^T + cross_query_bias\n"
            "layer 0: heads = attention(query, cross cache)\n"
            "layer 0: hidden = heads @ cross_output^T + cross_output_bias + hidden\n"
            "layer 0: normed = layernorm(hidden, mlp_norm, mlp_norm_bias)\n"
            "layer 0: inner = gelu(normed @ up^T + up_bias)\n"
            "layer 0: hidden = inner @ down^T + down_bias + hidden\n"
            "selected = hidden[rows]\n"
            "selected = layernorm(selected, final_norm, final_norm_bias)\n"
            "logits = selected @ embedding^T\n");
  EXPECT_EQ(llm::to_string(llm::plan_source(spec, c.decoder), spec, c.decoder),
            "layer 0: cross_kv = source @ cross_kv^T + cross_kv_bias\n"
            "layer 0: cross cache = write(cross_kv)\n");
}

// Keys have no bias in the files: the joined bias has zeros there.
TEST(WhisperWeights, JoinedBiasesHaveGaps) {
  const WhisperConfig c = config_of(kSmall);
  for (const llm::Weight& weight : llm::weight_layout(whisper_decoder_spec(), c.decoder)) {
    if (weight.role == llm::Role::kQkvBias) {
      EXPECT_EQ(weight.shape, (Dims{192}));
      ASSERT_EQ(weight.parts.size(), 2u);
      EXPECT_EQ(weight.parts[0].tensor, "decoder.layers.0.self_attn.q_proj.bias");
      EXPECT_EQ(weight.parts[1].row, 128);
    }
    if (weight.role == llm::Role::kCrossKvBias) {
      EXPECT_EQ(weight.shape, (Dims{128}));
      ASSERT_EQ(weight.parts.size(), 1u);
      EXPECT_EQ(weight.parts[0].row, 64);
    }
  }
}

// --- beam search
// ----------------------------------------------------------------------------------

using Candidates = BeamSearch::Candidates;

TEST(BeamSearch, KeepsTheBestAndStopsWhenNothingCanImprove) {
  constexpr std::int32_t kEos = 9;
  BeamSearch search({2, 10, kEos, 1.0});
  const Candidates first{{1, -0.1f}, {2, -0.5f}, {kEos, -3.0f}, {3, -4.0f}};
  std::vector<BeamSearch::Beam> beams = search.step({&first, 1});
  ASSERT_EQ(beams.size(), 2u);
  EXPECT_EQ(beams[0].token, 1);
  EXPECT_EQ(beams[1].token, 2);
  // The second beam overtakes; both have a good end.
  const std::vector<Candidates> second{{{kEos, -0.2f}, {4, -2.0f}, {5, -3.0f}, {6, -4.0f}},
                                       {{kEos, -0.1f}, {7, -2.5f}, {5, -3.0f}, {6, -4.0f}}};
  beams = search.step(second);
  EXPECT_TRUE(search.is_done());  // -2.1 / 2 is worse than -0.3 / 2 and -0.6 / 2
  EXPECT_TRUE(beams.empty());
  EXPECT_EQ(search.best().tokens, (std::vector<std::int32_t>{1, kEos}));
  EXPECT_NEAR(search.best().score, -0.15, 1e-6);
}

TEST(BeamSearch, EndsAtTheLongestText) {
  BeamSearch search({2, 2, 9, 1.0});
  const Candidates first{{1, -0.1f}, {2, -0.5f}, {3, -3.0f}, {4, -4.0f}};
  search.step({&first, 1});
  const std::vector<Candidates> second{{{1, -1.0f}, {2, -2.0f}, {3, -3.0f}, {4, -4.0f}},
                                       {{1, -0.1f}, {2, -2.0f}, {3, -3.0f}, {4, -4.0f}}};
  search.step(second);
  EXPECT_TRUE(search.is_done());
  EXPECT_EQ(search.best().tokens, (std::vector<std::int32_t>{2, 1}));
}

// With one candidate left per step, beams of -inf never appear.
TEST(BeamSearch, SkipsTokensThatAreNone) {
  BeamSearch search({3, 3, 9, 1.0});
  const Candidates only{{5, 0.0f}, {-1, -INFINITY}, {-1, -INFINITY}};
  EXPECT_EQ(search.step({&only, 1}).size(), 1u);
  EXPECT_FALSE(search.is_done());
  EXPECT_EQ(search.step({&only, 1}).size(), 1u);
  EXPECT_TRUE(search.step({&only, 1}).empty());
  EXPECT_EQ(search.best().tokens, (std::vector<std::int32_t>{5, 5, 5}));
}

// --- segments
// -------------------------------------------------------------------------------------

constexpr std::int32_t kStamp = 100;

WindowSegments split(const std::vector<std::int32_t>& tokens, std::int64_t frames = 3000) {
  return split_segments(tokens, kStamp, frames);
}

TEST(WhisperSegments, WithoutPairsAllIsOneSegment) {
  WindowSegments window = split({kStamp, 1, 2, kStamp + 50});
  ASSERT_EQ(window.segments.size(), 1u);
  EXPECT_EQ(window.segments[0].end_at, 50);
  EXPECT_EQ(window.advance, 3000);
  window = split({kStamp, 1, 2}, 800);
  EXPECT_EQ(window.segments[0].end_at, 400);
  EXPECT_EQ(window.advance, 800);
  EXPECT_TRUE(split({}).segments.empty());
}

TEST(WhisperSegments, UnfinishedTextBelongsToTheNextWindow) {
  const WindowSegments window = split({kStamp, 1, kStamp + 10, kStamp + 12, 2, 3});
  ASSERT_EQ(window.segments.size(), 1u);
  EXPECT_EQ(window.segments[0].begin, 0u);
  EXPECT_EQ(window.segments[0].end, 3u);
  EXPECT_EQ(window.segments[0].end_at, 10);
  EXPECT_EQ(window.advance, 20);
}

TEST(WhisperSegments, ASingleTimestampAtTheEndClosesTheWindow) {
  const WindowSegments window =
      split({kStamp, 1, kStamp + 10, kStamp + 12, 2, 3, kStamp + 30}, 1000);
  ASSERT_EQ(window.segments.size(), 2u);
  EXPECT_EQ(window.segments[1].start_at, 12);
  EXPECT_EQ(window.segments[1].end_at, 30);
  EXPECT_EQ(window.advance, 1000);
}

// --- alignment
// ------------------------------------------------------------------------------------

// All paths, by recursion.
double cheapest(const CostMatrix& costs, std::size_t i, std::size_t j) {
  const double here = costs.values[i * costs.columns + j];
  if (i == 0 && j == 0) return here;
  double best = INFINITY;
  if (i > 0) best = std::min(best, cheapest(costs, i - 1, j));
  if (j > 0) best = std::min(best, cheapest(costs, i, j - 1));
  if (i > 0 && j > 0) best = std::min(best, cheapest(costs, i - 1, j - 1));
  return best + here;
}

TEST(Alignment, ThePathIsTheCheapest) {
  std::mt19937 bits(3);
  std::uniform_real_distribution<double> draw(-1.0, 1.0);
  for (const auto& [rows, columns] : {std::pair{1u, 1u}, {1u, 6u}, {5u, 1u}, {5u, 7u}, {6u, 4u}}) {
    CostMatrix costs{rows, columns, std::vector<double>(rows * columns)};
    for (double& cost : costs.values) cost = draw(bits);
    const auto path = cheapest_path(costs);
    EXPECT_EQ(path.front(), (std::pair<std::size_t, std::size_t>{0, 0}));
    EXPECT_EQ(path.back(), (std::pair<std::size_t, std::size_t>{rows - 1, columns - 1}));
    double sum = 0.0;
    for (std::size_t k = 0; k < path.size(); ++k) {
      sum += costs.values[path[k].first * columns + path[k].second];
      if (k == 0) continue;
      EXPECT_LE(path[k].first - path[k - 1].first, 1u);
      EXPECT_LE(path[k].second - path[k - 1].second, 1u);
    }
    EXPECT_NEAR(sum, cheapest(costs, rows - 1, columns - 1), 1e-12);
  }
  EXPECT_TRUE(cheapest_path({}).empty());
}

TEST(Alignment, MedianOfNeighbours) {
  const std::vector<float> values{5, 1, 9, 2, 8};
  // Mirrored: 9 1 | 5 1 9 2 8 | 2 9
  EXPECT_EQ(median_filter(values, 3), (std::vector<float>{1, 5, 2, 8, 2}));
  EXPECT_EQ(median_filter(values, 1), values);
  EXPECT_EQ(median_filter(std::vector<float>{3, 1}, 7), (std::vector<float>{3, 1}));
}

// Each token attends to its own stretch of frames.
TEST(Alignment, RowsBeginWhereTheirWeightsAre) {
  constexpr std::size_t kHeads = 2, kTokens = 5, kFrames = 40;
  std::vector<float> weights(kHeads * kTokens * kFrames, 0.001f);
  for (std::size_t h = 0; h < kHeads; ++h)
    for (std::size_t t = 1; t < kTokens; ++t)
      for (std::size_t f = 10 * (t - 1); f < 10 * t; ++f)
        weights[(h * kTokens + t) * kFrames + f] = 0.1f;
  const std::vector<std::size_t> begins = align_rows(weights, kHeads, kTokens, kFrames, 1, 0, 3);
  EXPECT_EQ(begins, (std::vector<std::size_t>{0, 10, 20, 30}));
  EXPECT_TRUE(align_rows({}, 0, 0, 0, 0, 0, 7).empty());
}

}  // namespace
}  // namespace gpk::speech
