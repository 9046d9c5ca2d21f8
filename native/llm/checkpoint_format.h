// How a checkpoint is quantised, by the quantization_config of its config.json: AWQ, GPTQ,
// compressed-tensors, FP8 (with and without blocks) and bitsandbytes nf4.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"

namespace gpk::llm {

enum class CheckpointMethod : std::uint8_t { kAwq, kGptq, kPackQuantized, kRows, kFp8, kNf4 };

struct CheckpointFormat {
  CheckpointMethod method = CheckpointMethod::kAwq;
  int bits = 4;
  std::int64_t group = 0;    // of k; 0: a whole row
  bool plain_zeros = false;  // GPTQ: zero points are stored as they are
  bool ordered = false;      // pack-quantized: weight_g_idx has the group of every column
  bool blocks = false;       // FP8: scales of 128 x 128
};
std::string to_string(const CheckpointFormat& format);

// The quantization_config of a config.json; nullopt: it has none. Throws InvalidArgument, naming
// the field, for methods and options that are not read.
std::optional<CheckpointFormat> read_checkpoint_format(const Json& config);

}  // namespace gpk::llm
