#include "llm/speculation.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace gpk::llm {
namespace {

constexpr char kOp[] = "generate";

GenerationOptions without_penalties(GenerationOptions options) {
  if (options.sampling.has_penalty())
    throw InvalidArgument(cat(kOp, ": penalties are given, expected none with a strategy"));
  return checked(std::move(options));
}

Decoder::Options decoder_options(const Runner& runner, const Speculation::Options& o,
                                 bool use_graph) {
  const auto check = [](const char* what, std::int64_t value, std::int64_t most) {
    if (value < 1 || value > most)
      throw InvalidArgument(cat(kOp, ": ", what, " is ", value, ", expected 1 to ", most));
  };
  check("max_drafts", o.max_drafts, std::min<std::int64_t>(63, runner.options().max_tokens - 1));
  const std::int64_t rows = o.max_drafts + 1;
  check("max_branches", o.max_branches, runner.options().max_tokens / rows);
  return {.max_rows = rows * o.max_branches, .use_graph = use_graph};
}

// How many guesses the model would have said itself.
std::size_t num_accepted(const Tokens& branch, const Tokens& after) {
  return static_cast<std::size_t>(std::mismatch(branch.begin(), branch.end(), after.begin()).first -
                                  branch.begin());
}

}  // namespace

Speculation::Speculation(std::shared_ptr<Runner> runner, Tokens prompt, GenerationOptions options,
                         std::shared_ptr<Drafter> drafter, const Options& speculation)
    : runner_(std::move(runner)),
      options_(without_penalties(std::move(options))),
      speculation_(speculation),
      drafter_(std::move(drafter)),
      decoder_(runner_, decoder_options(*runner_, speculation_, options_.use_graph)),
      sequence_(std::make_unique<Sequence>(
          runner_->make_sequence(static_cast<std::int64_t>(prompt.size())))),
      text_(std::move(prompt)),
      num_prompt_(text_.size()) {
  if (text_.empty())
    throw InvalidArgument(cat(kOp, ": the prompt has no tokens, expected 1 or more"));
  sequence_->reserve(static_cast<std::int64_t>(num_prompt_) + options_.max_new_tokens - 1);
  const Array logits = prefill(*runner_, *sequence_, text_);
  DecodeRow row;
  row.token = text_.back();
  row.sampling = &options_.sampling;
  first_ = {decoder_.sample(logits, {&row, 1}).front()};
}

Branches Speculation::draft(std::int64_t most) {
  if (most < 1) return {{}};
  sequence_->reserve(static_cast<std::int64_t>(text_.size()) + most);
  Branches branches = drafter_->draft({text_, *sequence_, most});
  if (branches.empty()) branches.emplace_back();
  if (branches.size() > static_cast<std::size_t>(speculation_.max_branches))
    branches.resize(static_cast<std::size_t>(speculation_.max_branches));
  return branches;
}

// Rows of all branches in one step, each branch with pages of its own from here on. Where the cache
// has no page left, there are fewer branches.
Branches Speculation::check(const Branches& branches,
                            std::vector<std::unique_ptr<Sequence>>& sequences) {
  std::vector<DecodeRow> rows;
  for (std::size_t b = 0; b < branches.size(); ++b) {
    Sequence* sequence = sequence_.get();
    const auto end = static_cast<std::int64_t>(text_.size() + branches[b].size());
    if (b > 0) {
      auto fork = std::make_unique<Sequence>(sequence_->fork());
      if (fork->pages_missing(end) > runner_->pages().num_free()) break;
      sequence = fork.get();
      sequences.push_back(std::move(fork));
    }
    sequence->reserve(end);
    for (std::size_t i = 0; i <= branches[b].size(); ++i) {
      DecodeRow& row = rows.emplace_back();
      row.token = i == 0 ? text_.back() : branches[b][i - 1];
      row.position = static_cast<std::int64_t>(text_.size() - 1 + i);
      row.table = sequence->table();
      row.sampling = &options_.sampling;
      row.draws = static_cast<std::int64_t>(text_.size() - num_prompt_ + i);
      row.far = sequence->far();
    }
  }
  decoder_.launch(rows);
  const std::span<const std::int32_t> tokens = decoder_.tokens();
  Branches after;
  auto next = tokens.begin();
  for (std::size_t b = 0; b <= sequences.size(); ++b) {
    const auto count = static_cast<std::ptrdiff_t>(branches[b].size()) + 1;
    after.emplace_back(next, next + count);
    next += count;
  }
  return after;
}

// How many tokens the next step may check beside the newest one. A text that grows beyond the
// border of LongRoPE is computed again, as a long one.
std::int64_t Speculation::room() {
  const auto length = static_cast<std::int64_t>(text_.size());
  if (runner_->border() == 0 || sequence_->far()) return sequence_->max_length();
  if (!runner_->is_far(length)) return runner_->border() - length;
  sequence_->restart(true);
  sequence_->reserve(static_cast<std::int64_t>(num_prompt_) + options_.max_new_tokens - 1);
  prefill(*runner_, *sequence_, std::span(text_).first(text_.size() - 1));
  return sequence_->max_length();
}

Tokens Speculation::step() {
  const auto generated = static_cast<std::int64_t>(text_.size() - num_prompt_);
  const std::int64_t left = options_.max_new_tokens - generated;
  Branches branches = draft(std::min({speculation_.max_drafts, left - 1, room()}));
  std::vector<std::unique_ptr<Sequence>> forks;
  const Branches after = check(branches, forks);
  branches.resize(after.size());
  std::size_t kept = 0, accepted = 0;
  for (std::size_t b = 0; b < branches.size(); ++b) {
    const std::size_t count = num_accepted(branches[b], after[b]);
    if (count > accepted) {
      kept = b;
      accepted = count;
    }
    stats_.drafted += static_cast<std::int64_t>(branches[b].size());
  }
  if (kept > 0) sequence_ = std::move(forks[kept - 1]);
  sequence_->advance(static_cast<std::int64_t>(accepted) + 1);
  ++stats_.steps;
  stats_.accepted += static_cast<std::int64_t>(accepted);
  if (!branches.front().empty()) drafter_->observe(branches, after, kept, accepted);
  return {after[kept].begin(), after[kept].begin() + static_cast<std::ptrdiff_t>(accepted) + 1};
}

Tokens Speculation::next() {
  if (ended_) return {};
  Tokens tokens = first_.empty() ? step() : std::exchange(first_, {});
  const std::vector<std::int32_t>& stops = options_.stop_tokens;
  const auto stop = std::find_first_of(tokens.begin(), tokens.end(), stops.begin(), stops.end());
  if (stop != tokens.end()) {
    ended_ = true;
    tokens.erase(stop + 1, tokens.end());
  }
  text_.insert(text_.end(), tokens.begin(), tokens.end());
  stats_.tokens += static_cast<std::int64_t>(tokens.size());
  ended_ = ended_ || stats_.tokens == options_.max_new_tokens;
  return tokens;
}

}  // namespace gpk::llm
