#include "speech/kokoro_config.h"

#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/text.h"

namespace gpk::speech {
namespace {

constexpr std::int64_t kMaxSize = 1 << 20;

[[noreturn]] void fail(const std::string& problem) {
  throw InvalidArgument(cat("kokoro: config.json: ", problem));
}

std::int64_t positive(const Json& value, const std::string& name) {
  const auto number = value.integer();
  if (!number || *number < 1 || *number > kMaxSize)
    fail(cat(name, " is ", number ? cat(*number) : to_string(value.kind()),
             ", expected an integer from 1 to ", kMaxSize));
  return *number;
}

// Reads the members of one object.
class Members {
 public:
  Members(const Json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {
    if (object.members() == nullptr)
      fail(cat(prefix_.empty() ? "it" : prefix_, " is ", to_string(object.kind()),
               ", expected an object"));
  }

  void read(const char* name, std::int64_t& to) const {
    if (const Json* value = object_.find(name)) to = positive(*value, path(name));
  }
  void read(const char* name, std::vector<std::int64_t>& to) const {
    if (const Json* value = object_.find(name)) to = list(*value, path(name));
  }
  void read(const char* name, std::vector<std::vector<std::int64_t>>& to) const {
    const Json* value = object_.find(name);
    if (value == nullptr) return;
    if (value->items() == nullptr)
      fail(cat(path(name), " is ", to_string(value->kind()), ", expected an array of arrays"));
    to.clear();
    for (const Json& item : *value->items()) to.push_back(list(item, path(name)));
  }
  void read(const char* name, double& to) const {
    const Json* value = object_.find(name);
    if (value == nullptr) return;
    const auto number = value->number();
    if (!number || !(*number > 0) || !(*number < 1))
      fail(cat(path(name), " is ", to_string(value->kind()), ", expected a number in (0, 1)"));
    to = *number;
  }

 private:
  std::string path(const char* name) const {
    return prefix_.empty() ? std::string(name) : cat(prefix_, ".", name);
  }
  static std::vector<std::int64_t> list(const Json& value, const std::string& name) {
    if (value.items() == nullptr)
      fail(cat(name, " is ", to_string(value.kind()), ", expected an array of integers"));
    std::vector<std::int64_t> result;
    for (const Json& item : *value.items()) result.push_back(positive(item, name));
    return result;
  }

  const Json& object_;
  std::string prefix_;
};

void read_plbert(const Members& members, PlBertConfig& config) {
  members.read("embedding_size", config.embedding_size);
  members.read("hidden_size", config.hidden_size);
  members.read("intermediate_size", config.intermediate_size);
  members.read("num_hidden_layers", config.num_layers);
  members.read("num_hidden_groups", config.num_groups);
  members.read("inner_group_num", config.inner_group_num);
  members.read("num_attention_heads", config.num_heads);
  members.read("max_position_embeddings", config.max_positions);
  members.read("layer_norm_eps", config.norm_eps);
}

void read_istftnet(const Members& members, IstftNetConfig& config) {
  members.read("upsample_rates", config.upsample_rates);
  members.read("upsample_kernel_sizes", config.upsample_kernel_sizes);
  members.read("upsample_initial_channel", config.upsample_initial_channel);
  members.read("resblock_kernel_sizes", config.resblock_kernel_sizes);
  members.read("resblock_dilation_sizes", config.resblock_dilation_sizes);
  members.read("gen_istft_n_fft", config.n_fft);
  members.read("gen_istft_hop_size", config.hop);
}

void check_istftnet(const IstftNetConfig& c) {
  if (c.upsample_rates.empty() || c.upsample_rates.size() != c.upsample_kernel_sizes.size())
    fail(cat("istftnet has ", c.upsample_rates.size(), " upsample_rates and ",
             c.upsample_kernel_sizes.size(), " upsample_kernel_sizes, expected as many of both"));
  for (std::size_t i = 0; i < c.upsample_rates.size(); ++i)
    if (c.upsample_kernel_sizes[i] < c.upsample_rates[i] ||
        (c.upsample_kernel_sizes[i] - c.upsample_rates[i]) % 2 != 0)
      fail(cat("istftnet.upsample_kernel_sizes has ", c.upsample_kernel_sizes[i], " for a rate of ",
               c.upsample_rates[i], ", expected the rate plus an even number"));
  if (c.upsample_initial_channel % (std::int64_t{1} << c.upsample_rates.size()) != 0)
    fail(cat("istftnet.upsample_initial_channel is ", c.upsample_initial_channel,
             ", expected a multiple of ", std::int64_t{1} << c.upsample_rates.size()));
  if (c.resblock_kernel_sizes.empty() ||
      c.resblock_kernel_sizes.size() != c.resblock_dilation_sizes.size())
    fail(cat("istftnet has ", c.resblock_kernel_sizes.size(), " resblock_kernel_sizes and ",
             c.resblock_dilation_sizes.size(),
             " resblock_dilation_sizes, expected as many of both"));
  for (const std::int64_t taps : c.resblock_kernel_sizes)
    if (taps % 2 == 0)
      fail(cat("istftnet.resblock_kernel_sizes has ", taps, ", expected odd numbers"));
  if (c.n_fft % 2 != 0 || c.n_fft % c.hop != 0 || c.n_fft < 2 * c.hop)
    fail(cat("istftnet.gen_istft_n_fft is ", c.n_fft, ", expected an even multiple of the hop ",
             c.hop));
  if (c.samples_per_frame() < 3)
    fail(cat("istftnet makes ", c.samples_per_frame(), " samples per frame, expected 3 or more"));
}

}  // namespace

std::int64_t IstftNetConfig::samples_per_frame() const {
  return std::accumulate(upsample_rates.begin(), upsample_rates.end(), hop, std::multiplies<>());
}

KokoroConfig read_kokoro_config(const Json& json) {
  KokoroConfig config;
  const Members members(json, "");
  members.read("n_token", config.n_token);
  members.read("hidden_dim", config.hidden_dim);
  members.read("n_layer", config.n_layer);
  members.read("max_dur", config.max_dur);
  members.read("style_dim", config.style_dim);
  members.read("text_encoder_kernel_size", config.text_encoder_kernel_size);
  if (const Json* part = json.find("plbert")) read_plbert(Members(*part, "plbert"), config.plbert);
  if (const Json* part = json.find("istftnet"))
    read_istftnet(Members(*part, "istftnet"), config.istftnet);
  check_kokoro_config(config);
  return config;
}

void check_kokoro_config(const KokoroConfig& config) {
  const PlBertConfig& bert = config.plbert;
  if (bert.hidden_size % bert.num_heads != 0)
    fail(cat("plbert.hidden_size is ", bert.hidden_size, ", expected a multiple of ",
             bert.num_heads, ", the attention heads"));
  if (bert.num_layers % bert.num_groups != 0)
    fail(cat("plbert.num_hidden_layers is ", bert.num_layers, ", expected a multiple of ",
             bert.num_groups, ", the groups"));
  if (config.hidden_dim % 2 != 0)
    fail(cat("hidden_dim is ", config.hidden_dim, ", expected an even number"));
  if (config.text_encoder_kernel_size % 2 == 0)
    fail(cat("text_encoder_kernel_size is ", config.text_encoder_kernel_size,
             ", expected an odd number"));
  check_istftnet(config.istftnet);
}

}  // namespace gpk::speech
