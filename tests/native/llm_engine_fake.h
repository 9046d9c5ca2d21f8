// A model for tests of the cache and of engines. Keys are the tokens themselves, in the real pages;
// the next token is a hash of all tokens that the page table leads to, so that a wrong page gives a
// wrong text.
#pragma once

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "llm/engine_passes.h"
#include "ops/cpu_backend.h"

namespace gpk::llm {

inline constexpr std::int64_t kFakePage = 16;

inline ModelConfig fake_config() {
  ModelConfig config;
  config.vocab_size = 1000;
  config.num_layers = 2;
  config.num_kv_heads = 1;
  config.head_dim = 1;
  return config;
}

inline std::shared_ptr<KvPages> fake_pages(std::int64_t count) {
  return std::make_shared<KvPages>(fake_config(), DType::kFloat32, Device{}, count, kFakePage);
}

inline std::int32_t fake_token(std::span<const std::int32_t> text, const SamplingOptions& sampling,
                               std::int64_t draws) {
  std::uint64_t hash = 1469598103934665603ULL;
  const auto add = [&](std::uint64_t x) { hash = (hash ^ x) * 1099511628211ULL; };
  for (const std::int32_t token : text) add(static_cast<std::uint64_t>(token));
  if (sampling.temperature > 0.0) {
    add(static_cast<std::uint64_t>(sampling.seed));
    add(static_cast<std::uint64_t>(draws));
  }
  return static_cast<std::int32_t>((hash >> 20) % 1000);
}

// While alive, pages of these caches can be copied on the CPU.
class FakeCopies {
 public:
  FakeCopies() {
    ops::set_cpu_backend([](const ops::CpuCall& call) {
      const Array& from = std::get<Array>(call.args[0]);
      const Array& to = call.outs[0];
      if (std::string(call.op) != "copy" || from.size() != to.shape()[0] * kFakePage)
        throw std::runtime_error(call.op);
      for (std::int64_t i = 0; i < to.shape()[0]; ++i)  // by layer, keys and values
        std::copy_n(static_cast<const float*>(from.data()) + i * from.strides()[0], kFakePage,
                    static_cast<float*>(to.data()) + i * to.strides()[0]);
    });
  }
  ~FakeCopies() { ops::set_cpu_backend(nullptr); }
};

class FakePasses final : public EnginePasses {
 public:
  FakePasses(std::shared_ptr<KvPages> pages, EngineLimits limits)
      : pages_(std::move(pages)), limits_(limits) {}

  std::int64_t num_passes = 0, num_ahead = 0;
  bool fails = false;
  std::function<void()> on_prefill = [] {};
  std::string log;                 // p for a prefill pass, d for a decode step
  bool single_tokens_mix = false;  // a chunk of one token was in a pass with others

  [[nodiscard]] EngineLimits limits() const override { return limits_; }
  [[nodiscard]] Device device() const override { return Device{}; }

  std::vector<std::int32_t> prefill(std::span<const Runner::Chunk> chunks,
                                    std::span<const DecodeRow> rows) override {
    if (fails) throw std::runtime_error("the device is lost");
    ++num_passes;
    log += 'p';
    on_prefill();
    std::int64_t total = 0;
    for (const Runner::Chunk& chunk : chunks) {
      const auto count = static_cast<std::int64_t>(chunk.tokens.size());
      single_tokens_mix |= (count == 1) != (chunks[0].tokens.size() == 1);
      total += count;
      chunk.sequence.reserve(chunk.sequence.length() + count);
      for (std::int64_t i = 0; i < count; ++i)
        write(chunk.sequence.table(), chunk.sequence.length() + i,
              chunk.tokens[static_cast<std::size_t>(i)]);
      chunk.sequence.advance(count);
    }
    if (total > limits_.max_tokens) throw std::runtime_error("too many tokens");
    std::vector<std::int32_t> tokens;
    scores_.clear();
    for (const DecodeRow& row : rows) tokens.push_back(next(row));
    return tokens;
  }

  void decode(std::span<const DecodeRow> rows) override {
    if (static_cast<std::int64_t>(rows.size()) > limits_.max_rows)
      throw std::runtime_error("too many rows");
    rows_.clear();
    for (const DecodeRow& row : rows)
      rows_.push_back({row, {row.table.begin(), row.table.end()}, *row.sampling});
    run();
  }
  void decode_again() override {
    ++num_ahead;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].row.token = tokens_[0][i];
      ++rows_[i].row.position;
      ++rows_[i].row.draws;
    }
    run();
  }
  std::span<const std::int32_t> tokens(std::int64_t back) override {
    return tokens_[static_cast<std::size_t>(back)];
  }
  std::vector<TokenScore> scores() override { return scores_; }

 private:
  struct Row {  // of a step: what the caller's spans point to may go
    DecodeRow row;
    std::vector<std::int32_t> table;
    SamplingOptions sampling;
  };

  void run() {
    log += 'd';
    tokens_[1] = std::move(tokens_[0]);
    tokens_[0].clear();
    scores_.clear();
    for (Row& row : rows_) {
      row.row.table = row.table;
      row.row.sampling = &row.sampling;
      write(row.table, row.row.position, row.row.token);
      tokens_[0].push_back(next(row.row));
    }
  }
  float* at(std::span<const std::int32_t> table, std::int64_t position, std::int64_t layer) {
    const std::int32_t page = table[static_cast<std::size_t>(position / kFakePage)];
    auto* data =
        static_cast<float*>((position % 2 == 0 ? pages_->k(layer) : pages_->v(layer)).data());
    return data + page * kFakePage + position % kFakePage;
  }
  void write(std::span<const std::int32_t> table, std::int64_t position, std::int32_t token) {
    const std::int32_t page = table[static_cast<std::size_t>(position / kFakePage)];
    if (pages_->counts().holders(page) != 1)
      throw std::runtime_error("a page of others is written");
    for (const std::int64_t layer : {0, 1}) *at(table, position, layer) = static_cast<float>(token);
  }
  std::int32_t next(const DecodeRow& row) {
    std::vector<std::int32_t> text;
    for (std::int64_t i = 0; i <= row.position; ++i)
      text.push_back(static_cast<std::int32_t>(*at(row.table, i, i % 3 == 0 ? 0 : 1)));
    std::int32_t token = fake_token(text, *row.sampling, row.draws);
    while (!row.mask.empty() &&
           (row.mask[static_cast<std::size_t>(token / 32)] >> (token % 32) & 1) == 0)
      token = (token + 1) % 1000;
    const auto logprob = -static_cast<float>(token);
    scores_.push_back({logprob, logprob, {{token, -1.0f}, {0, -2.0f}}});
    return token;
  }

  std::shared_ptr<KvPages> pages_;
  EngineLimits limits_;
  std::vector<Row> rows_;
  std::vector<std::int32_t> tokens_[2];
  std::vector<TokenScore> scores_;
};

// The text that a request gets alone.
inline std::vector<std::int32_t> fake_text(std::vector<std::int32_t> prompt, std::int64_t count,
                                           const SamplingOptions& sampling = {}) {
  std::vector<std::int32_t> text;
  for (std::int64_t i = 0; i < count; ++i) {
    text.push_back(fake_token(prompt, sampling, i));
    prompt.push_back(text.back());
  }
  return text;
}

}  // namespace gpk::llm
