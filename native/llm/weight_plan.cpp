#include "llm/weight_plan.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/round_up.h"
#include "base/text.h"

namespace gpk::llm {
namespace {

bool is_weight_float(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

}  // namespace

DType weight_dtype(DType stored, std::optional<DType> wanted) {
  if (!wanted) return stored;
  if (!is_weight_float(*wanted))
    throw InvalidArgument(
        cat("load: dtype is ", name(*wanted), ", expected float16, bfloat16, float32 or float64"));
  return is_weight_float(stored) ? *wanted : stored;
}

std::vector<WeightBlock> plan_weights(std::span<const WeightSource> sources,
                                      std::optional<DType> dtype, std::size_t block_bytes) {
  std::vector<WeightBlock> blocks;
  std::optional<std::size_t> open[2];  // the last block that does not convert, that does
  const auto dtypes_of = [&](const WeightSource& source) {
    const DType stored = loadable_dtype(*source.tensor, source.file->path());
    return std::pair(stored, weight_dtype(stored, dtype));
  };
  bool converted_before = false;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto [stored, loaded] = dtypes_of(sources[i]);
    const bool converts = loaded != stored;
    const std::size_t raw_bytes = sources[i].tensor->size_bytes;
    const std::size_t bytes = raw_bytes / itemsize(stored) * itemsize(loaded);
    std::optional<std::size_t>& at = open[converts ? 1 : 0];
    const bool joined = sources[i].joined && i > 0 && at && converts == converted_before;
    converted_before = converts;
    if (raw_bytes == 0) continue;
    if (!joined) {
      // All that are joined to it go to the same block.
      std::size_t together = bytes;
      for (std::size_t j = i + 1; j < sources.size() && sources[j].joined; ++j) {
        const auto [from, to] = dtypes_of(sources[j]);
        together += sources[j].tensor->size_bytes / itemsize(from) * itemsize(to);
      }
      if (!at || round_up(blocks[*at].bytes, kWeightAlignBytes) + together > block_bytes) {
        at = blocks.size();
        blocks.emplace_back().converts = converts;
      }
    }
    WeightBlock& block = blocks[*at];
    PlacedWeight weight{sources[i], stored, loaded};
    weight.raw_offset = joined ? block.raw_bytes : round_up(block.raw_bytes, kWeightAlignBytes);
    weight.offset = joined ? block.bytes : round_up(block.bytes, kWeightAlignBytes);
    block.raw_bytes = weight.raw_offset + raw_bytes;
    block.bytes = weight.offset + bytes;
    block.weights.push_back(weight);
  }
  return blocks;
}

std::vector<WeightRead> plan_reads(const WeightBlock& block, std::size_t begin, std::size_t end) {
  std::vector<WeightRead> reads;
  // The first one that ends after `begin`.
  auto weight = std::partition_point(
      block.weights.begin(), block.weights.end(),
      [&](const PlacedWeight& w) { return w.raw_offset + w.source.tensor->size_bytes <= begin; });
  for (; weight != block.weights.end() && weight->raw_offset < end; ++weight) {
    const TensorInfo& tensor = *weight->source.tensor;
    const std::size_t from = std::max(begin, weight->raw_offset);
    const std::size_t to =
        std::min(end, weight->raw_offset + static_cast<std::size_t>(tensor.size_bytes));
    const WeightRead read{weight->source.file, tensor.offset + (from - weight->raw_offset),
                          from - begin, to - from};
    if (!reads.empty() && reads.back().file == read.file &&
        reads.back().file_offset + reads.back().bytes == read.file_offset &&
        reads.back().offset + reads.back().bytes == read.offset)
      reads.back().bytes += read.bytes;
    else
      reads.push_back(read);
  }
  return reads;
}

std::string to_string(std::span<const WeightBlock> plan) {
  std::string text;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const WeightBlock& block = plan[i];
    std::vector<std::string> names;
    for (const PlacedWeight& weight : block.weights) names.push_back(weight.source.tensor->name);
    text += cat("block ", i, ": ", names.size(), names.size() == 1 ? " tensor, " : " tensors, ",
                block.raw_bytes, " bytes as read, ", block.bytes, " as loaded: ", join(names, ", "),
                "\n");
  }
  return text;
}

}  // namespace gpk::llm
