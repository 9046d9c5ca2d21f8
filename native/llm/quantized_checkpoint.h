// Checkpoints that are quantised already (checkpoint_format.h). Their tensors are folded into one
// "<module>.weight" each, which is converted to a packed weight when it is loaded.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "llm/checkpoint_format.h"
#include "llm/checkpoint_layouts.h"
#include "llm/weight_set.h"

namespace gpk::llm {

class QuantizedCheckpoint {
 public:
  // The files outlive this.
  QuantizedCheckpoint(const CheckpointFormat& format, const WeightSet& files)
      : format_(format), files_(files) {}

  // The shapes of a plain checkpoint: tensors of a quantised module are replaced by its weight.
  std::map<std::string, Dims> fold(const std::map<std::string, Dims>& shapes);

  // Of fold(): whether the weight has to be converted.
  [[nodiscard]] bool has(const std::string& weight) const { return weights_.contains(weight); }
  [[nodiscard]] HostPacked convert(const std::string& weight) const;

 private:
  [[nodiscard]] std::optional<Dims> weight_shape(const std::string& module) const;

  CheckpointFormat format_;
  const WeightSet& files_;
  std::map<std::string, Dims> weights_;
};

}  // namespace gpk::llm
