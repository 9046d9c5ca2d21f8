// The layers and the head of a decode step as one kernel, where all of them can be chained.
#pragma once

#include <memory>
#include <string>

#include "llm/forward.h"
#include "ops/chain/chain.h"

namespace gpk::llm {

// Of passes with the same number of rows, the same arrays and the same number of layers.
class LayerChain {
 public:
  // As run_steps(), with the same bits. The first call records the chain; where there is none, and
  // while a graph is captured before it, the steps are launched one by one.
  void run(const PassInput& input, PassState& state);

  // The chain as text, or why there is none.
  [[nodiscard]] std::string explain() const;

 private:
  void record(std::span<const Step> steps, const PassInput& input, PassState& state);

  std::unique_ptr<ops::Chain> chain_;
  const void* logits_ = nullptr;  // where the chain writes them; none: nothing was recorded
  std::string why_;
};

}  // namespace gpk::llm
