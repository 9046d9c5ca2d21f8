// Where tensors go: which share a block of device memory, and which bytes of which file fill it.
// Pure functions, tested as such.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "llm/safetensors_header.h"
#include "llm/weight_file.h"

namespace gpk::llm {

// A tensor to load. The file outlives the plan.
struct WeightSource {
  const WeightFile* file;
  const TensorInfo* tensor;
  bool joined = false;  // directly behind the one before it, where both are converted or none
};

struct PlacedWeight {
  WeightSource source;
  DType stored;
  DType dtype;                 // as loaded
  std::size_t raw_offset = 0;  // in the block's bytes as read
  std::size_t offset = 0;      // in the block
};

// Tensors of one allocation, all to be converted or none. The bytes as read are laid out like the
// block: a window of them is one copy to the device, whatever the tensors in it.
struct WeightBlock {
  std::vector<PlacedWeight> weights;
  bool converts = false;
  std::size_t raw_bytes = 0;
  std::size_t bytes = 0;
};

inline constexpr std::size_t kWeightAlignBytes = 256;

// The dtype that a tensor is loaded as: `wanted` for float16, bfloat16, float32 and float64;
// integers, booleans and narrower floats, which are quantised values, stay as they are. Throws
// InvalidArgument where `wanted` is none of the four.
DType weight_dtype(DType stored, std::optional<DType> wanted);

// In the order of the sources, without empty tensors. A block has at most `block_bytes`, or one
// tensor.
std::vector<WeightBlock> plan_weights(std::span<const WeightSource> sources,
                                      std::optional<DType> dtype, std::size_t block_bytes);

// Bytes of a file that belong at `offset` of a window.
struct WeightRead {
  const WeightFile* file;
  std::uint64_t file_offset;
  std::size_t offset;
  std::size_t bytes;
};

// What fills bytes [begin, end) of the block as read. Reads that are contiguous on both sides are
// one.
std::vector<WeightRead> plan_reads(const WeightBlock& block, std::size_t begin, std::size_t end);

// A line per block: "block 0: 3 tensors, 1536 bytes as read, 3072 as loaded: a, b, c".
std::string to_string(std::span<const WeightBlock> plan);

}  // namespace gpk::llm
