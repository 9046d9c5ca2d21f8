#include "llm/generation.h"

#include <algorithm>
#include <numeric>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/fill.h"
#include "ops/kv_cache/pages.h"
#include "ops/sampling/logprobs.h"

namespace gpk::llm {
namespace {

Array on_device(const std::vector<std::int32_t>& numbers, Device device) {
  return device::from_host(numbers.data(), {static_cast<std::int64_t>(numbers.size())},
                           DType::kInt32, device);
}

void check_options(const GenerationOptions& o) {
  const auto check = [](bool good, const char* what, double value, const char* expected) {
    if (!good) throw InvalidArgument(cat("generate: ", what, " is ", value, ", expected ", expected));
  };
  check(o.max_new_tokens >= 1, "max_new_tokens", static_cast<double>(o.max_new_tokens),
        "1 or more");
  const SamplingOptions& s = o.sampling;
  check(s.temperature >= 0.0, "temperature", s.temperature, "0 or more");
  check(s.top_k >= 0, "top_k", static_cast<double>(s.top_k), "0 or more");
  check(s.top_p > 0.0 && s.top_p <= 1.0, "top_p", s.top_p, "above 0, up to 1");
  check(s.min_p >= 0.0 && s.min_p <= 1.0, "min_p", s.min_p, "0 to 1");
  check(s.repetition_penalty > 0.0, "repetition_penalty", s.repetition_penalty, "above 0");
}

}  // namespace

Generation::Generation(std::shared_ptr<Runner> runner,
                       std::vector<std::vector<std::int32_t>> prompts, GenerationOptions options)
    : runner_(std::move(runner)), options_(std::move(options)) {
  check_options(options_);
  const auto count = static_cast<std::int64_t>(prompts.size());
  if (count < 1 || count > runner_->options().max_sequences)
    throw InvalidArgument(cat("generate: ", count, " prompts, expected 1 to ",
                              runner_->options().max_sequences));
  for (const auto& prompt : prompts) {
    if (prompt.empty()) throw InvalidArgument("generate: a prompt has no tokens, expected 1 or more");
    sequences_.push_back(runner_->make_sequence());
    // The last new token is never read back, so it needs no place.
    sequences_.back().reserve(static_cast<std::int64_t>(prompt.size()) + options_.max_new_tokens -
                              1);
  }
  ended_.assign(prompts.size(), false);

  const Device device = runner_->model().device();
  const SamplingOptions& s = options_.sampling;
  filter_.temperature = {s.temperature, {}};
  filter_.top_k = {s.top_k, {}};
  filter_.top_p = {s.top_p, {}};
  filter_.min_p = {s.min_p, {}};
  filter_.repetition_penalty = {s.repetition_penalty, {}};
  std::vector<std::int64_t> seeds(prompts.size());
  std::iota(seeds.begin(), seeds.end(), s.seed);
  const std::vector<std::int64_t> zeros(prompts.size(), 0);
  source_.seed.values = device::from_host(seeds.data(), {count}, DType::kInt64, device);
  source_.step.values = device::from_host(zeros.data(), {count}, DType::kInt64, device);
  if (s.repetition_penalty != 1.0) {
    filter_.counts = Array::empty({count, runner_->model().config().vocab_size}, DType::kInt32,
                                  device, "generate");
    ops::fill(*filter_.counts, Scalar(std::int64_t{0}), "generate");
  }
  input_ = first_input(prefill(prompts));
}

Array Generation::prefill(const std::vector<std::vector<std::int32_t>>& prompts) {
  const Device device = runner_->model().device();
  const Array first = Array::empty({static_cast<std::int64_t>(prompts.size())}, DType::kInt32,
                                   device, "generate");
  const Array logits = Array::empty({first.size(), runner_->model().config().vocab_size},
                                    runner_->model().dtype(), device, "generate");
  const auto chunk = static_cast<std::size_t>(runner_->options().max_tokens);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::span<const std::int32_t> prompt = prompts[i];
    const auto row = static_cast<std::int64_t>(i);
    for (std::size_t at = 0; at < prompt.size(); at += chunk) {
      const Runner::Chunk part{sequences_[i],
                               prompt.subspan(at, std::min(chunk, prompt.size() - at))};
      const Array last = runner_->forward({&part, 1});
      if (at + chunk >= prompt.size())
        ops::copy_into(slice_axis(logits, 0, row, 1, 1), last, "generate");
    }
    if (filter_.counts)
      ops::count_tokens(slice_axis(*filter_.counts, 0, row, 1, 1),
                        expand_dims(on_device(prompts[i], device), {0}, "generate"));
  }
  return ops::sample(logits, filter_, source_, first);
}

PassInput Generation::first_input(const Array& tokens) const {
  const Device device = runner_->model().device();
  const std::int64_t blocks = ceil_div(runner_->options().max_length, runner_->options().page);
  std::vector<std::int32_t> positions, lengths, tables, rows, starts{0};
  for (const Sequence& sequence : sequences_) {
    const auto length = static_cast<std::int32_t>(sequence.length());
    rows.push_back(static_cast<std::int32_t>(rows.size()));
    starts.push_back(static_cast<std::int32_t>(rows.size()));
    positions.push_back(length);
    lengths.push_back(length + 1);
    tables.insert(tables.end(), sequence.table().begin(), sequence.table().end());
    tables.resize(rows.size() * static_cast<std::size_t>(blocks), 0);
  }
  const auto count = static_cast<std::int64_t>(sequences_.size());
  return {count,
          count,
          1,
          tokens,
          on_device(positions, device),
          Array::empty({count}, DType::kInt32, device, "generate"),
          on_device(starts, device),
          on_device(lengths, device),
          *try_reshape(on_device(tables, device), {count, blocks}),
          on_device(rows, device)};
}

void Generation::enqueue_step() {
  const PassInput& in = *input_;
  if (filter_.counts) ops::count_tokens(*filter_.counts, in.tokens);
  ops::slot_mapping(in.tables, in.positions, std::nullopt, runner_->options().page, in.slots);
  const Array logits = runner_->enqueue(in);
  ops::sample(logits, filter_, source_, in.tokens);
  ops::add(in.positions, Scalar(std::int64_t{1}), &in.positions);
  ops::add(in.lengths, Scalar(std::int64_t{1}), &in.lengths);
}

// The first step loads kernels, the second is captured.
void Generation::step() {
  if (num_steps_ == 1 || !options_.use_graph || !runner_->model().device().is_cuda()) {
    enqueue_step();
    return;
  }
  if (!graph_) {
    auto graph = std::make_unique<Graph>(runner_->model().device());
    graph->begin_capture();
    try {
      enqueue_step();
      graph->end_capture();
    } catch (...) {
      graph->abandon_capture();
      throw;
    }
    graph_ = std::move(graph);
  }
  graph_->replay();
}

std::vector<std::int32_t> Generation::next() {
  if (num_steps_ == options_.max_new_tokens ||
      std::find(ended_.begin(), ended_.end(), false) == ended_.end())
    return {};
  if (num_steps_ > 0) step();
  ++num_steps_;
  std::vector<std::int32_t> tokens(sequences_.size());
  device::to_host(input_->tokens, tokens.data());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int32_t token = tokens[i];
    if (ended_[i]) tokens[i] = kEnded;
    const std::vector<std::int32_t>& stops = options_.stop_tokens;
    ended_[i] = ended_[i] || std::find(stops.begin(), stops.end(), token) != stops.end();
  }
  return tokens;
}

std::vector<std::vector<std::int32_t>> generate(
    const std::shared_ptr<Runner>& runner, const std::vector<std::vector<std::int32_t>>& prompts,
    const GenerationOptions& options) {
  Generation generation(runner, prompts, options);
  std::vector<std::vector<std::int32_t>> texts(prompts.size());
  for (std::vector<std::int32_t> step; !(step = generation.next()).empty();)
    for (std::size_t i = 0; i < step.size(); ++i)
      if (step[i] != Generation::kEnded) texts[i].push_back(step[i]);
  return texts;
}

}  // namespace gpk::llm
