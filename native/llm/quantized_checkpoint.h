// Checkpoints that are quantised already, by the quantization_config of their config.json: AWQ,
// GPTQ, compressed-tensors, FP8 (with and without blocks) and bitsandbytes nf4. Their tensors are
// folded into one "<module>.weight" each, which is converted to a packed weight when it is loaded.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/json.h"
#include "llm/checkpoint_layouts.h"
#include "llm/weight_set.h"

namespace gpk::llm {

enum class CheckpointMethod : std::uint8_t { kAwq, kGptq, kPackQuantized, kRows, kFp8, kNf4 };

struct CheckpointFormat {
  CheckpointMethod method = CheckpointMethod::kAwq;
  int bits = 4;
  std::int64_t group = 0;    // of k; 0: a whole row
  bool plain_zeros = false;  // GPTQ: zero points are stored as they are
  bool blocks = false;       // FP8: scales of 128 x 128
};
std::string to_string(const CheckpointFormat& format);

// The quantization_config of a config.json; nullopt: it has none. Throws InvalidArgument, naming
// the field, for methods and options that are not read.
std::optional<CheckpointFormat> read_checkpoint_format(const Json& config);

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
