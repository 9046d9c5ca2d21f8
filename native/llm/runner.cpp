#include "llm/runner.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "device/host_copy.h"

namespace gpk::llm {
namespace {

constexpr std::int64_t kDefaultLength = 4096;

RunnerOptions completed(RunnerOptions o, const ModelConfig& config) {
  if (o.max_length == 0) o.max_length = std::min(config.max_positions, kDefaultLength);
  const auto check = [](const char* what, std::int64_t value, std::int64_t most) {
    if (value < 1 || value > most)
      throw InvalidArgument(cat("runner: ", what, " is ", value, ", expected 1 to ", most));
  };
  check("max_length", o.max_length, config.max_positions);
  check("max_tokens", o.max_tokens, std::int64_t{1} << 20);
  check("max_sequences", o.max_sequences, std::int64_t{1} << 16);
  if (o.max_sources == 0) o.max_sources = o.max_sequences;
  check("max_sources", o.max_sources, std::int64_t{1} << 16);
  if (o.num_pages == 0) o.num_pages = o.max_sequences * ceil_div(o.max_length, o.page);
  return o;
}

}  // namespace

DType cache_dtype(const Model& model, std::optional<DType> kv_dtype) {
  if (!kv_dtype || *kv_dtype == model.dtype()) return model.dtype();
  if (*kv_dtype != DType::kFloat8E4M3FN)
    throw InvalidArgument(Error::Kind::kType,
                          cat("runner: kv_dtype is ", name(*kv_dtype), ", expected ",
                              name(model.dtype()), " (the model's) or float8_e4m3fn"));
  return *kv_dtype;
}

// The integers of a pass, one after the other, so that one copy brings them to the device.
struct Runner::HostInput {
  std::int64_t tokens = 0, sequences = 0, rows = 0, longest = 0, blocks = 0, cross_blocks = 0;
  std::vector<std::int32_t> numbers;
};

Runner::Runner(std::shared_ptr<const Model> model, const RunnerOptions& options)
    : model_(std::move(model)),
      options_(completed(options, model_->config())),
      pages_(std::make_shared<KvPages>(model_->config(), cache_dtype(*model_, options_.kv_dtype),
                                       model_->device(), options_.num_pages, options_.page)),
      memory_(place_slots(model_->plan(), model_->spec(), model_->config())),
      activations_(Array::empty({options_.max_tokens * memory_.width}, model_->dtype(),
                                model_->device(), "runner")) {
  const ModelConfig& config = model_->config();
  if (model_->spec().has_cross())
    cross_ = std::make_unique<CrossCache>(model_, options_.max_sources, options_.page);
  if (!model_->spec().use_rope) return;
  border_ = rope_border(config.rope, options_.max_length);
  const auto table = [&](const RopeConfig& rope) {
    return border_ > 0 ? make_rope_tables(rope, border_, options_.max_length, model_->device())
                       : make_rope_table(rope, options_.max_length, model_->device());
  };
  rope_ = table(config.rope);
  if (std::find(config.has_window.begin(), config.has_window.end(), true) !=
      config.has_window.end())
    local_rope_ = table(config.local_rope);
}

Runner::HostInput Runner::gather(std::span<const Chunk> chunks) {
  HostInput host;
  host.sequences = static_cast<std::int64_t>(chunks.size());
  host.blocks = ceil_div(options_.max_length, options_.page);
  if (host.sequences < 1 || host.sequences > options_.max_sequences)
    throw InvalidArgument(
        cat("forward: ", host.sequences, " sequences, expected 1 to ", options_.max_sequences));
  std::vector<std::int32_t> positions, slots, starts{0}, lengths, tables, rows, cross_lengths,
      cross_tables, rope_rows;
  for (const Chunk& chunk : chunks) {
    const auto count = static_cast<std::int64_t>(chunk.tokens.size());
    if (count < 1) throw InvalidArgument("forward: a chunk has no tokens, expected 1 or more");
    if (chunk.num_rows < 0 || chunk.num_rows > count)
      throw InvalidArgument(
          cat("forward: num_rows is ", chunk.num_rows, ", expected 0 to ", count, ", the tokens"));
    if ((chunk.source != nullptr) != (cross_ != nullptr))
      throw InvalidArgument(cat("forward: a chunk has ", cross_ ? "no source" : "a source",
                                ", expected ", cross_ ? "one" : "none", " for ",
                                model_->spec().name));
    if (host.tokens + count > options_.max_tokens)
      throw InvalidArgument(
          cat("forward: more than ", options_.max_tokens, " tokens, expected at most max_tokens"));
    for (const std::int32_t token : chunk.tokens)
      if (token < 0 || token >= model_->config().vocab_size)
        throw InvalidArgument(
            cat("forward: token ", token, ", expected 0 to ", model_->config().vocab_size - 1));
    check_border(chunk.sequence.far(), chunk.sequence.length() + count, "forward");
    host.tokens += count;
  }
  std::int64_t first = 0;
  for (const Chunk& chunk : chunks) {
    Sequence& sequence = chunk.sequence;
    const auto count = static_cast<std::int64_t>(chunk.tokens.size());
    const std::int64_t end = sequence.length() + count;
    sequence.reserve(end);
    const std::span<const std::int32_t> table = sequence.table();
    host.numbers.insert(host.numbers.end(), chunk.tokens.begin(), chunk.tokens.end());
    for (std::int64_t p = sequence.length(); p < end; ++p) {
      const std::int64_t slot =
          table[static_cast<std::size_t>(p / options_.page)] * options_.page + p % options_.page;
      positions.push_back(static_cast<std::int32_t>(p));
      slots.push_back(static_cast<std::int32_t>(slot));
      if (border_ > 0)
        rope_rows.push_back(
            static_cast<std::int32_t>(p + (sequence.far() ? options_.max_length : 0)));
    }
    for (std::int64_t i = count - chunk.num_rows; i < count; ++i)
      rows.push_back(static_cast<std::int32_t>(first + i));
    first += count;
    starts.push_back(static_cast<std::int32_t>(first));
    lengths.push_back(static_cast<std::int32_t>(end));
    tables.insert(tables.end(), table.begin(), table.end());
    tables.resize(lengths.size() * static_cast<std::size_t>(host.blocks), 0);
    host.longest = std::max(host.longest, count);
    if (chunk.source == nullptr) continue;
    cross_lengths.push_back(static_cast<std::int32_t>(chunk.source->length()));
    const std::span<const std::int32_t> pages = chunk.source->table();
    cross_tables.insert(cross_tables.end(), pages.begin(), pages.end());
    cross_tables.resize(cross_lengths.size() * static_cast<std::size_t>(cross_->blocks()), 0);
  }
  if (cross_) host.cross_blocks = cross_->blocks();
  host.rows = static_cast<std::int64_t>(rows.size());
  for (const auto* part : {&positions, &slots, &starts, &lengths, &rows, &tables, &cross_lengths,
                           &cross_tables, &rope_rows})
    host.numbers.insert(host.numbers.end(), part->begin(), part->end());
  return host;
}

PassInput Runner::upload(const HostInput& host) {
  const Array all =
      device::from_host(host.numbers.data(), {static_cast<std::int64_t>(host.numbers.size())},
                        DType::kInt32, model_->device());
  std::int64_t at = 0;
  const auto next = [&](std::int64_t count) {
    const std::int64_t first = at;
    at += count;
    return slice_axis(all, 0, first, count, 1);
  };
  const Array tokens = next(host.tokens);
  const Array positions = next(host.tokens);
  const Array slots = next(host.tokens);
  const Array starts = next(host.sequences + 1);
  const Array lengths = next(host.sequences);
  const Array rows = next(host.rows);
  const Array tables =
      *try_reshape(next(host.sequences * host.blocks), {host.sequences, host.blocks});
  PassInput input{host.tokens, host.sequences, host.longest, false,   0,      tokens,
                  positions,   slots,          starts,       lengths, tables, rows};
  if (cross_) {
    input.cross_lengths = next(host.sequences);
    input.cross_tables =
        *try_reshape(next(host.sequences * host.cross_blocks), {host.sequences, host.cross_blocks});
  }
  if (border_ > 0) input.rope_rows = next(host.tokens);
  return input;
}

void Runner::check_border(bool far, std::int64_t length, const char* op) const {
  if (!far && is_far(length))
    throw InvalidArgument(cat(op, ": the text would have ", length, " tokens, expected at most ",
                              border_, ", original_max_position_embeddings, of a short text"));
}

void Runner::reserve_rows(std::int64_t rows) {
  if (logits_ && logits_->shape()[0] >= rows) return;
  const ModelConfig& config = model_->config();
  const auto make = [&](std::int64_t width) {
    return Array::empty({rows, width}, model_->dtype(), model_->device(), "runner");
  };
  logits_ = make(config.vocab_size);
  selected_ = make(config.hidden_size);
}

std::array<std::optional<Array>, kNumSlots> Runner::slots_of(std::int64_t tokens,
                                                             std::int64_t rows) {
  const ModelConfig& config = model_->config();
  reserve_rows(rows);
  std::array<std::optional<Array>, kNumSlots> slots;
  for (int s = 1; s < kNumSlots; ++s) {
    const auto slot = static_cast<Slot>(s);
    const std::int64_t width = slot_width(slot, model_->spec(), config);
    if (width == 0 || slot == Slot::kSource || slot == Slot::kCrossKv) continue;
    auto& array = slots[static_cast<std::size_t>(s)];
    if (slot == Slot::kLogits)
      array = slice_axis(*logits_, 0, 0, rows, 1);
    else if (slot == Slot::kSelected)
      array = slice_axis(*selected_, 0, 0, rows, 1);
    else
      array = Array({tokens, width}, {width, 1}, model_->dtype(), activations_.buffer(),
                    activations_.offset_elems() +
                        options_.max_tokens * memory_.offset[static_cast<std::size_t>(s)]);
  }
  return slots;
}

Array Runner::enqueue(const PassInput& input, LayerChain* chain) {
  PassState state{*model_, pages_.get(), rope_ ? &*rope_ : nullptr,
                  local_rope_ ? &*local_rope_ : nullptr,
                  slots_of(input.num_tokens, input.rows->size())};
  state.cross = cross_.get();
  state.on_cross_query = on_cross_query_;
  if (input.decodes)
    state.slots[static_cast<std::size_t>(Slot::kSelected)] =
        state.slots[static_cast<std::size_t>(Slot::kHidden)];
  if (chain != nullptr)
    chain->run(input, state);
  else
    run_steps(input, state);
  return *state.slots[static_cast<std::size_t>(Slot::kLogits)];
}

Array Runner::forward(std::span<const Chunk> chunks) {
  const Array logits = enqueue(upload(gather(chunks)));
  for (const Chunk& chunk : chunks)
    chunk.sequence.advance(static_cast<std::int64_t>(chunk.tokens.size()));
  return logits;
}

}  // namespace gpk::llm
