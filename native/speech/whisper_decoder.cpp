#include "speech/whisper_decoder.h"

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "ops/elementwise/copy.h"
#include "speech/whisper_row.h"

namespace gpk::speech {
namespace {

constexpr char kOp[] = "decode";
constexpr std::int64_t kPage = 64;
constexpr std::int64_t kPrefillTokens = 1024;
constexpr std::size_t kMaxDecoders = 8;

llm::RunnerOptions runner_options(const llm::Model& model, const WhisperDecoder::Options& options) {
  const auto check = [](const char* what, std::int64_t value, std::int64_t most) {
    if (value < 1 || value > most)
      throw InvalidArgument(cat(kOp, ": ", what, " is ", value, ", expected 1 to ", most));
  };
  check("max_sources", options.max_sources, 4096);
  check("max_beams", options.max_beams, 64);
  const std::int64_t rows = options.max_sources * options.max_beams;
  const std::int64_t length = model.config().max_positions;
  llm::RunnerOptions r;
  r.max_tokens = std::max({kPrefillTokens, rows, length});
  r.max_sequences = rows;
  r.max_length = length;
  // A beam that is forked holds its last page twice for a moment.
  r.num_pages = rows * (ceil_div(length, kPage) + (options.max_beams > 1 ? 1 : 0));
  r.page = kPage;
  r.persistent = options.persistent;
  r.max_sources = options.max_sources;
  return r;
}

}  // namespace

WhisperDecoder::WhisperDecoder(std::shared_ptr<const llm::Model> model, const Options& options)
    : options_(options),
      runner_(std::make_shared<llm::Runner>(model, runner_options(*model, options))) {
  // For all passes, so that graphs and passes share one block.
  runner_->reserve_rows(std::max(runner_->options().max_length, 8 * options_.max_sources));
}

Array WhisperDecoder::logits(const llm::Sequence& source, std::span<const std::int32_t> tokens) {
  llm::Sequence sequence = runner_->make_sequence();
  const llm::Runner::Chunk chunk{sequence, tokens, static_cast<std::int64_t>(tokens.size()),
                                 &source};
  return runner_->forward({&chunk, 1});
}

llm::Decoder& WhisperDecoder::decoder_for(const llm::TokenRules& rules) {
  for (Cached& cached : decoders_)
    if (cached.rules == rules) return *cached.decoder;
  llm::Decoder::Options options;
  options.max_rows = runner_->options().max_sequences;
  options.use_graph = options_.use_graph;
  options.rules = rules;
  options.keeps_logprobs = true;
  auto decoder = std::make_unique<llm::Decoder>(runner_, options);
  if (decoders_.size() == kMaxDecoders) decoders_.erase(decoders_.begin());
  decoders_.push_back({rules, std::move(decoder)});
  return *decoders_.back().decoder;
}

std::vector<WhisperDecoder::Row> WhisperDecoder::start(
    std::span<const llm::Sequence* const> sources,
    std::span<const std::vector<std::int32_t>> prompts, const WhisperTextOptions& options) {
  const auto count = static_cast<std::int64_t>(sources.size());
  if (sources.size() != prompts.size())
    throw InvalidArgument(
        cat(kOp, ": ", prompts.size(), " prompts, expected one for each of ", count, " sources"));
  if (count > options_.max_sources)
    throw InvalidArgument(
        cat(kOp, ": ", count, " sources, expected at most ", options_.max_sources));
  if (options.num_beams < 1 || options.num_beams > options_.max_beams)
    throw InvalidArgument(
        cat(kOp, ": num_beams is ", options.num_beams, ", expected 1 to ", options_.max_beams));
  if (options.max_new_tokens < 0)
    throw InvalidArgument(
        cat(kOp, ": max_new_tokens is ", options.max_new_tokens, ", expected 0 or more"));
  llm::check_sampling(options.sampling, kOp);
  const std::int64_t positions = runner_->options().max_length;
  std::vector<Row> rows;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto length = static_cast<std::int64_t>(prompts[i].size());
    if (length < 1 || length >= positions)
      throw InvalidArgument(
          cat(kOp, ": a prompt has ", length, " tokens, expected 1 to ", positions - 1));
    Row& row = rows.emplace_back(runner_->make_sequence());
    row.source = sources[i];
    row.prompt = prompts[i];
    row.limit = positions - length;
    if (options.max_new_tokens > 0) row.limit = std::min(row.limit, options.max_new_tokens);
    row.sampling = options.sampling;
    row.sampling.seed += static_cast<std::int64_t>(i);
  }
  return rows;
}

// The logits after every prompt. Where silence is judged, it is by those after the start token.
Array WhisperDecoder::prefill(std::span<Row> rows, const WhisperTextOptions& options) {
  const llm::Model& m = model();
  const std::int64_t vocabulary = m.config().vocab_size;
  const Array last = Array::empty({static_cast<std::int64_t>(rows.size()), vocabulary}, m.dtype(),
                                  m.device(), kOp);
  const bool judges = options.start_token >= 0 && options.no_speech_token >= 0;
  std::vector<std::int64_t> wanted;  // rows of logits, of each text
  for (const Row& row : rows) {
    const auto at = std::find(row.prompt.rbegin(), row.prompt.rend(), options.start_token);
    wanted.push_back(judges && at != row.prompt.rend() ? at - row.prompt.rbegin() + 1 : 1);
  }
  for (std::size_t first = 0; first < rows.size();) {
    std::vector<llm::Runner::Chunk> chunks;
    std::int64_t tokens = 0;
    std::size_t end = first;
    for (; end < rows.size(); ++end) {
      tokens += static_cast<std::int64_t>(rows[end].prompt.size());
      if (tokens > runner_->options().max_tokens) break;
      chunks.push_back({rows[end].sequence, rows[end].prompt, wanted[end], rows[end].source});
    }
    const Array logits = runner_->forward(chunks);
    std::int64_t at = 0;
    for (std::size_t i = first; i < end; at += wanted[i], ++i) {
      ops::copy_into(slice_axis(last, 0, static_cast<std::int64_t>(i), 1, 1),
                     slice_axis(logits, 0, at + wanted[i] - 1, 1, 1), kOp);
      if (!judges) continue;
      const Array token =
          device::from_host(&options.no_speech_token, {1}, DType::kInt32, m.device());
      float logprob = 0.0f;
      device::to_host(ops::token_logprobs(slice_axis(logits, 0, at, 1, 1), token, 0).chosen,
                      &logprob);
      rows[i].text.no_speech = std::exp(static_cast<double>(logprob));
    }
    first = end;
  }
  return last;
}

std::vector<WhisperText> WhisperDecoder::decode(std::span<const llm::Sequence* const> sources,
                                                std::span<const std::vector<std::int32_t>> prompts,
                                                const WhisperTextOptions& options) {
  std::vector<Row> rows = start(sources, prompts, options);
  if (rows.empty()) return {};
  if (options.num_beams > 1)
    decode_beams(rows, options);
  else
    decode_rows(rows, options);
  std::vector<WhisperText> texts;
  for (Row& row : rows) texts.push_back(std::move(row.text));
  return texts;
}

}  // namespace gpk::speech
