// Guesses by a smaller model, or by the first layers of the model itself.
#pragma once

#include <memory>

#include "llm/decoder.h"
#include "llm/drafter.h"

namespace gpk::llm {

// Another model with the same vocabulary.
class ModelDrafter : public Drafter {
 public:
  explicit ModelDrafter(std::shared_ptr<Runner> runner, bool use_graph = true);
  Branches draft(const Context& context) override;

 private:
  void catch_up(std::span<const std::int32_t> text);

  std::shared_ptr<Runner> runner_;
  Decoder decoder_;
  Sequence sequence_;
  Tokens cached_;  // what the sequence holds
};

// The first layers of the model, then its head. They share its cache: the keys and values that
// they write are those that the model writes again.
class LayerDrafter : public Drafter {
 public:
  // Throws InvalidArgument unless 1 <= num_layers < the model's.
  LayerDrafter(std::shared_ptr<Runner> runner, std::int64_t num_layers, bool use_graph = true);
  Branches draft(const Context& context) override;

 private:
  Decoder decoder_;
};

}  // namespace gpk::llm
