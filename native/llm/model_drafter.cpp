#include "llm/model_drafter.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "llm/generation.h"

namespace gpk::llm {
namespace {

// From here on a prefill is faster than rows of a step.
constexpr std::size_t kMaxRows = 16;

// Greedy tokens after `rows`, the newest tokens of a sequence.
Tokens continue_greedily(Decoder& decoder, std::span<const DecodeRow> rows, std::int64_t count) {
  Tokens tokens;
  decoder.launch(rows);
  tokens.push_back(decoder.tokens().back());
  DecodeRow row = rows.back();
  for (std::int64_t i = 1; i < count; ++i) {
    row.token = tokens.back();
    ++row.position;
    if (i == 1 && rows.size() > 1)
      decoder.launch({&row, 1});
    else
      decoder.launch();
    tokens.push_back(decoder.tokens().back());
  }
  return tokens;
}

std::int64_t checked_layers(const Runner& runner, std::int64_t layers) {
  const std::int64_t all = runner.model().config().num_layers;
  if (layers < 1 || layers >= all)
    throw InvalidArgument(
        cat("self_speculative: num_layers is ", layers, ", expected 1 to ", all - 1));
  return layers;
}

}  // namespace

ModelDrafter::ModelDrafter(std::shared_ptr<Runner> runner, bool use_graph)
    : runner_(std::move(runner)),
      decoder_(runner_,
               {.max_rows = std::min<std::int64_t>(kMaxRows, runner_->options().max_tokens),
                .use_graph = use_graph}),
      sequence_(runner_->make_sequence()) {}

// Forgets what the text does not have, and reads all but the last kMaxRows tokens or fewer.
void ModelDrafter::catch_up(std::span<const std::int32_t> text) {
  const auto known = std::mismatch(cached_.begin(), cached_.end(), text.begin(), text.end());
  const auto same =
      std::min(static_cast<std::size_t>(known.first - cached_.begin()), text.size() - 1);
  sequence_.truncate(static_cast<std::int64_t>(same));
  cached_.resize(same);
  if (text.size() - same <= kMaxRows) return;
  prefill(*runner_, sequence_, text.subspan(same, text.size() - 1 - same));
  cached_.assign(text.begin(), text.end() - 1);
}

Branches ModelDrafter::draft(const Context& context) {
  const std::span<const std::int32_t> text = context.text;
  const auto length = static_cast<std::int64_t>(text.size());
  const std::int64_t most = std::min(context.most, sequence_.max_length() - length + 1);
  if (most < 1) return {};
  if (const bool far = runner_->is_far(length + most - 1); far != sequence_.far()) {
    sequence_.restart(far);
    cached_.clear();
  }
  catch_up(text);
  sequence_.reserve(length + most - 1);
  std::vector<DecodeRow> rows;
  for (std::size_t i = cached_.size(); i < text.size(); ++i) {
    DecodeRow& row = rows.emplace_back();
    row.token = text[i];
    row.position = static_cast<std::int64_t>(i);
    row.table = sequence_.table();
    row.far = sequence_.far();
  }
  Tokens drafts = continue_greedily(decoder_, rows, most);
  cached_.assign(text.begin(), text.end());
  cached_.insert(cached_.end(), drafts.begin(), drafts.end() - 1);
  sequence_.advance(static_cast<std::int64_t>(cached_.size()) - sequence_.length());
  return {std::move(drafts)};
}

LayerDrafter::LayerDrafter(std::shared_ptr<Runner> runner, std::int64_t num_layers, bool use_graph)
    : decoder_(runner, {.max_rows = 1,
                        .use_graph = use_graph,
                        .num_layers = checked_layers(*runner, num_layers)}) {}

Branches LayerDrafter::draft(const Context& context) {
  DecodeRow row;
  row.token = context.text.back();
  row.position = static_cast<std::int64_t>(context.text.size()) - 1;
  row.table = context.sequence.table();
  row.far = context.sequence.far();
  return {continue_greedily(decoder_, {&row, 1}, context.most)};
}

}  // namespace gpk::llm
