#include "speech/whisper_alignment.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kv_cache/pages.h"
#include "ops/matmul/matmul.h"
#include "ops/nn/log_likelihood.h"
#include "ops/nn/softmax.h"
#include "speech/alignment.h"

namespace gpk::speech {
namespace {

constexpr char kOp[] = "align";

using Heads = std::map<std::int64_t, std::vector<std::int64_t>>;  // by layer

Heads by_layer(const AlignmentOptions& options, const llm::ModelConfig& config) {
  Heads heads;
  for (const auto& [layer, head] : options.heads) {
    if (layer < 0 || layer >= config.num_layers || head < 0 || head >= config.num_heads)
      throw InvalidArgument(cat(kOp, ": head ", head, " of layer ", layer, ", but the model has ",
                                config.num_layers, " layers of ", config.num_heads, " heads"));
    heads[layer].push_back(head);
  }
  if (heads.empty()) throw InvalidArgument(cat(kOp, ": no heads, expected one or more"));
  return heads;
}

// Restores the runner whatever happens.
class QueryTap {
 public:
  QueryTap(llm::Runner& runner, std::function<void(std::int64_t, const Array&)> function)
      : runner_(runner) {
    runner_.on_cross_query(std::move(function));
  }
  ~QueryTap() { runner_.on_cross_query(nullptr); }
  QueryTap(const QueryTap&) = delete;
  QueryTap& operator=(const QueryTap&) = delete;

 private:
  llm::Runner& runner_;
};

// Column `head` of [rows, heads, dim] as [rows, dim].
Array head_of(const Array& all, std::int64_t head) {
  return squeeze(slice_axis(all, 1, head, 1, 1), {1}, kOp);
}

}  // namespace

TokenAlignment align(WhisperDecoder& decoder, const llm::Sequence& source,
                     std::span<const std::int32_t> prompt, std::span<const std::int32_t> text,
                     std::int32_t end, const AlignmentOptions& options) {
  if (prompt.empty()) throw InvalidArgument(cat(kOp, ": the prompt has no tokens"));
  const llm::ModelConfig& config = decoder.model().config();
  const Heads heads = by_layer(options, config);
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  tokens.insert(tokens.end(), text.begin(), text.end());
  tokens.push_back(end);
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count > config.max_positions)
    throw InvalidArgument(cat(kOp, ": ", count,
                              " tokens with the prompt and the end, expected at most ",
                              config.max_positions));
  std::int64_t rows = source.length();
  if (options.num_frames > 0) rows = std::clamp<std::int64_t>(options.num_frames / 2, 1, rows);

  const Device device = decoder.model().device();
  const std::span<const std::int32_t> table = source.table();
  const Array pages = device::from_host(table.data(), {1, static_cast<std::int64_t>(table.size())},
                                        DType::kInt32, device);
  std::vector<float> weights;
  std::size_t num_heads = 0;
  Array logits = Array::empty({1, 1}, DType::kFloat32, device, kOp);
  {
    const llm::KvPages& cache = decoder.runner().cross()->pages();
    const QueryTap tap(decoder.runner(), [&](std::int64_t layer, const Array& queries) {
      const auto wanted = heads.find(layer);
      if (wanted == heads.end()) return;
      const Array keys = squeeze(
          ops::gather_pages(cache.k(layer), pages, rows, std::nullopt, std::nullopt), {0}, kOp);
      for (const std::int64_t head : wanted->second) {
        ops::MatmulOptions matmul;
        matmul.dtype = DType::kFloat32;
        const Array scores =
            ops::matmul(head_of(queries, head), transpose(head_of(keys, head), kOp), matmul);
        ops::SoftmaxOptions softmax;
        softmax.scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
        const Array shares = ops::softmax(scores, softmax, std::nullopt);
        const std::size_t at = weights.size();
        weights.resize(at + static_cast<std::size_t>(count * rows));
        device::to_host(shares, weights.data() + at);
        ++num_heads;
      }
    });
    logits = decoder.logits(source, tokens);
  }
  TokenAlignment result;
  // What a row attends to is where the token after it is spoken.
  for (const std::size_t begin :
       align_rows(weights, num_heads, tokens.size(), static_cast<std::size_t>(rows),
                  prompt.size() - 1, 1, static_cast<std::size_t>(options.median_width)))
    result.begins.push_back(static_cast<std::int64_t>(begin));
  if (!text.empty()) {
    const auto length = static_cast<std::int64_t>(text.size());
    const std::int64_t most =
        options.vocabulary_end > 0 ? options.vocabulary_end : config.vocab_size;
    const Array after =
        slice_axis(slice_axis(logits, 0, static_cast<std::int64_t>(prompt.size()) - 1, length, 1),
                   1, 0, most, 1);
    const Array targets = device::from_host(text.data(), {length}, DType::kInt32, device);
    result.probs.resize(text.size());
    device::to_host(ops::log_likelihood(after, targets, -1, std::nullopt), result.probs.data());
    for (float& prob : result.probs) prob = std::exp(prob);
  }
  return result;
}

}  // namespace gpk::speech
