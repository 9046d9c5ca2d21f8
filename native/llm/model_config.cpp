#include "llm/model_config.h"

#include "base/error.h"
#include "base/text.h"

namespace gpk::llm {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;

void check_positive(const char* field, std::int64_t value) {
  if (value <= 0 || value >= kMaxSize)
    throw InvalidArgument(
        cat("load: ", field, " is ", value, ", expected a number from 1 to ", kMaxSize - 1));
}

}  // namespace

void check_config(const ModelConfig& c) {
  if (c.num_mels == 0) check_positive("vocab_size", c.vocab_size);
  check_positive("hidden_size", c.hidden_size);
  check_positive("num_hidden_layers", c.num_layers);
  check_positive("num_attention_heads", c.num_heads);
  check_positive("num_key_value_heads", c.num_kv_heads);
  check_positive("head_dim", c.head_dim);
  check_positive("intermediate_size", c.intermediate_size);
  check_positive("max_position_embeddings", c.max_positions);
  if (c.num_heads % c.num_kv_heads != 0)
    throw InvalidArgument(cat("load: num_key_value_heads is ", c.num_kv_heads,
                              ", expected a divisor of num_attention_heads, ", c.num_heads));
  if (!(c.norm_eps >= 0.0))
    throw InvalidArgument(
        cat("load: the epsilon of norms is ", c.norm_eps, ", expected 0 or more"));
  if (c.has_window.size() != static_cast<std::size_t>(c.num_layers))
    throw InvalidArgument(cat("load: layer_types has ", c.has_window.size(),
                              " entries, expected one for each of ", c.num_layers, " layers"));
  if (c.num_experts > 0 && (c.experts_per_token < 1 || c.experts_per_token > c.num_experts))
    throw InvalidArgument(cat("load: num_experts_per_tok is ", c.experts_per_token,
                              ", expected 1 to ", c.num_experts));
}

}  // namespace gpk::llm
