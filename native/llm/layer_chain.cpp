#include "llm/layer_chain.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "core/graph.h"

namespace gpk::llm {
namespace {

// Of the model's decode plan, without the layers from input.num_layers on.
std::vector<Step> steps_of(const PassInput& input, const Model& model) {
  const std::int64_t last = input.num_layers > 0 ? input.num_layers : model.config().num_layers;
  std::vector<Step> steps;
  for (const Step& step : model.decode_plan().steps)
    if (step.layer < last) steps.push_back(step);
  return steps;
}

}  // namespace

void LayerChain::record(std::span<const Step> steps, const PassInput& input, PassState& state) {
  chain_.reset();
  why_.clear();
  if (state.model.evictable())
    why_ = "weights may be evicted";
  else
    chain_ =
        ops::Chain::record(state.model.device(), [&] { run_steps(steps, input, state); }, why_);
}

void LayerChain::run(const PassInput& input, PassState& state) {
  const std::vector<Step> steps = steps_of(input, state.model);
  // From the first layer to the logits.
  const auto first =
      std::find_if(steps.begin(), steps.end(), [](const Step& step) { return step.layer >= 0; });
  auto end = std::find_if(first, steps.end(), [](const Step& step) {
    return step.kind == StepKind::kLinear && step.out == Slot::kLogits;
  });
  if (end != steps.end()) ++end;
  const std::span<const Step> before(steps.begin(), first);
  const std::span<const Step> chained(first, end);
  const std::span<const Step> after(end, steps.end());

  const void* const logits = state.slots[static_cast<std::size_t>(Slot::kLogits)]->data();
  if (logits != logits_ && capturing_graph() == nullptr) {
    record(chained, input, state);
    logits_ = logits;
  }
  run_steps(before, input, state);
  if (chain_ && logits == logits_)
    chain_->launch();
  else
    run_steps(chained, input, state);
  run_steps(after, input, state);
}

std::string LayerChain::explain() const {
  if (chain_) return chain_->explain();
  return logits_ == nullptr ? "no step was run\n" : cat("a launch for each op: ", why_, "\n");
}

}  // namespace gpk::llm
