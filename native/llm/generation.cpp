#include "llm/generation.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"

namespace gpk::llm {
namespace {

constexpr char kOp[] = "generate";

Decoder::Options decoder_options(const Runner& runner, std::size_t prompts, bool use_graph) {
  const auto count = static_cast<std::int64_t>(prompts);
  const std::int64_t most = runner.options().max_sequences;
  if (count < 1 || count > most)
    throw InvalidArgument(cat(kOp, ": ", count, " prompts, expected 1 to ", most));
  return {count, use_graph};
}

}  // namespace

GenerationOptions checked(GenerationOptions options) {
  if (options.max_new_tokens < 1)
    throw InvalidArgument(
        cat(kOp, ": max_new_tokens is ", options.max_new_tokens, ", expected 1 or more"));
  check_sampling(options.sampling, kOp);
  return options;
}

Array prefill(Runner& runner, Sequence& sequence, std::span<const std::int32_t> prompt) {
  if (prompt.empty())
    throw InvalidArgument(cat(kOp, ": a prompt has no tokens, expected 1 or more"));
  const auto most = static_cast<std::size_t>(runner.options().max_tokens);
  for (std::size_t at = 0;;) {
    std::size_t count = std::min(most, prompt.size() - at);
    // A last chunk of one token would take other kernels than a chunk of more.
    if (prompt.size() - at - count == 1 && count > 2) --count;
    const Runner::Chunk part{sequence, prompt.subspan(at, count)};
    const Array logits = runner.forward({&part, 1});
    at += count;
    if (at == prompt.size()) return logits;
  }
}

Generation::Generation(std::shared_ptr<Runner> runner,
                       std::vector<std::vector<std::int32_t>> prompts, GenerationOptions options,
                       const Sequence* prefix)
    : runner_(std::move(runner)),
      options_(checked(std::move(options))),
      decoder_(runner_, decoder_options(*runner_, prompts.size(), options_.use_graph)),
      prompts_(std::move(prompts)),
      texts_(prompts_.size()),
      ended_(prompts_.size(), false) {
  const Array logits = Array::empty(
      {static_cast<std::int64_t>(prompts_.size()), runner_->model().config().vocab_size},
      runner_->model().dtype(), runner_->model().device(), kOp);
  for (std::size_t i = 0; i < prompts_.size(); ++i) {
    const std::span<const std::int32_t> prompt = prompts_[i];
    const auto size = static_cast<std::int64_t>(prompt.size());
    const bool shares = i == 0 && prefix != nullptr && prefix->length() + 2 <= size &&
                        prefix->far() == runner_->is_far(size);
    Sequence& sequence =
        sequences_.emplace_back(shares ? prefix->fork() : runner_->make_sequence(size));
    // The last new token is never read back, so it needs no place.
    sequence.reserve(size + options_.max_new_tokens - 1);
    const Array last =
        prefill(*runner_, sequence, prompt.subspan(static_cast<std::size_t>(sequence.length())));
    ops::copy_into(slice_axis(logits, 0, static_cast<std::int64_t>(i), 1, 1), last, kOp);
  }
  std::vector<DecodeRow> rows = rows_after(0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].token = prompts_[i].back();
    rows[i].history = rows[i].history.first(prompts_[i].size() - 1);
  }
  const std::span<const std::int32_t> tokens = decoder_.sample(logits, rows);
  first_.assign(tokens.begin(), tokens.end());
}

std::vector<DecodeRow> Generation::rows_after(std::int64_t draws) const {
  std::vector<DecodeRow> rows(prompts_.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].position = sequences_[i].length();
    rows[i].table = sequences_[i].table();
    rows[i].sampling = &options_.sampling;
    rows[i].far = sequences_[i].far();
    rows[i].draws = draws;
    rows[i].history = prompts_[i];
  }
  return rows;
}

void Generation::launch() {
  if (cross_border()) return;
  if (decoder_.num_launches() > 1) {
    decoder_.launch();
    return;
  }
  std::vector<DecodeRow> rows = rows_after(1);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].token = first_[i];
  decoder_.launch(rows);
}

// A text that grows beyond the border of LongRoPE is computed again, as a long one.
bool Generation::cross_border() {
  if (runner_->border() == 0) return false;
  const auto crosses = [&](std::size_t i) {
    const auto size = static_cast<std::int64_t>(prompts_[i].size());
    return !ended_[i] && !sequences_[i].far() && runner_->is_far(size + num_given_ + 1);
  };
  bool any = false;
  for (std::size_t i = 0; i < prompts_.size(); ++i) any = any || crosses(i);
  if (!any) return false;
  const std::span<const std::int32_t> newest = num_given_ == 0 ? first_ : decoder_.tokens(0);
  const std::vector<std::int32_t> tokens(newest.begin(), newest.end());
  std::vector<DecodeRow> rows = rows_after(num_given_ + 1);
  std::vector<std::vector<std::int32_t>> whole = prompts_;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    whole[i].insert(whole[i].end(), texts_[i].begin(), texts_[i].end());
    if (crosses(i)) {
      sequences_[i].restart(true);
      sequences_[i].reserve(static_cast<std::int64_t>(prompts_[i].size()) +
                            options_.max_new_tokens - 1);
      prefill(*runner_, sequences_[i], whole[i]);
    }
    rows[i].token = tokens[i];
    rows[i].position = static_cast<std::int64_t>(prompts_[i].size()) + num_given_;
    rows[i].table = sequences_[i].table();
    rows[i].far = sequences_[i].far() || ended_[i];  // those that ended are computed in vain
    rows[i].history = whole[i];
  }
  decoder_.launch(rows);
  return true;
}

// The device is kept a step ahead: it runs the next step while the host reads this one's tokens.
std::vector<std::int32_t> Generation::next() {
  if (num_given_ == options_.max_new_tokens ||
      std::find(ended_.begin(), ended_.end(), false) == ended_.end())
    return {};
  std::vector<std::int32_t> tokens = first_;
  const bool has_next = num_given_ + 1 < options_.max_new_tokens;
  if (has_next) launch();
  if (num_given_ > 0) {
    const std::span<const std::int32_t> given = decoder_.tokens(has_next ? 1 : 0);
    tokens.assign(given.begin(), given.end());
  }
  ++num_given_;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int32_t token = tokens[i];
    if (ended_[i]) tokens[i] = kEnded;
    texts_[i].push_back(token);
    const std::vector<std::int32_t>& stops = options_.stop_tokens;
    ended_[i] = ended_[i] || std::find(stops.begin(), stops.end(), token) != stops.end();
  }
  return tokens;
}

Sequence Generation::prompt_pages() const {
  if (runner_->border() > 0) return runner_->make_sequence();  // it may have to be read again
  const auto size = static_cast<std::int64_t>(prompts_.front().size());
  const std::int64_t page = runner_->options().page;
  Sequence pages = sequences_.front().fork();
  pages.truncate(std::max<std::int64_t>(size - 2, 0) / page * page);
  return pages;
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
