#include "llm/decoder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/round_up.h"
#include "base/text.h"
#include "core/stream.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/fill.h"
#include "ops/kv_cache/pages.h"
#include "ops/sampling/timestamp_rules.h"

namespace gpk::llm {
namespace {

constexpr char kOp[] = "decode";

// 1, 2, 4, 8, 16, 24, 32, 48, 64, then multiples of 64.
std::int64_t bucket_of(std::int64_t rows) {
  for (const std::int64_t size : {1, 2, 4, 8, 16, 24, 32, 48})
    if (rows <= size) return size;
  return round_up(rows, 64);
}

Decoder::Options completed(Decoder::Options options, const Runner& runner) {
  const auto check = [](const char* what, std::int64_t value, std::int64_t least,
                        std::int64_t most) {
    if (value < least || value > most)
      throw InvalidArgument(
          cat(kOp, ": ", what, " is ", value, ", expected ", least, " to ", most));
  };
  check("max_rows", options.max_rows, 1, runner.options().max_tokens);
  check("num_layers", options.num_layers, 0, runner.model().config().num_layers);
  options.use_graph =
      options.use_graph && runner.model().device().is_cuda() && !runner.model().evictable();
  options.max_rows = std::min(bucket_of(options.max_rows), runner.options().max_tokens);
  return options;
}

Array iota(std::int64_t count, Device device) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return device::from_host(numbers.data(), {count}, DType::kInt32, device);
}

}  // namespace

// Where the fields of all rows are, in words of 32 bits per row; the tables come last.
struct Decoder::Fields {
  static constexpr std::int64_t kSeed = 0, kDraws = 2, kTemperature = 4, kTopP = 5, kMinP = 6,
                                kTypicalP = 7, kRepetition = 8, kPresence = 9, kFrequency = 10,
                                kTopK = 11, kToken = 12, kPosition = 13, kLength = 14,
                                kAdvance = 15, kHistory = 16, kCrossLength = 20, kRope = 21,
                                kTables = 22;
};

Decoder::Decoder(std::shared_ptr<Runner> runner, const Options& options)
    : runner_(std::move(runner)),
      options_(completed(options, *runner_)),
      blocks_(ceil_div(runner_->options().max_length, runner_->options().page)),
      cross_blocks_(runner_->cross() == nullptr ? 0 : runner_->cross()->blocks()),
      host_(static_cast<std::size_t>(options_.max_rows *
                                     (Fields::kTables + blocks_ + cross_blocks_))),
      state_(Array::empty({static_cast<std::int64_t>(host_.size())}, DType::kInt32,
                          runner_->model().device(), kOp)),
      iota_(iota(options_.max_rows + 1, state_.device())),
      slots_(Array::empty({options_.max_rows}, DType::kInt32, state_.device(), kOp)),
      ring_(PinnedMemory::allocate(state_.device(),
                                   static_cast<std::size_t>(kRing * options_.max_rows) * 8)) {
  runner_->reserve_rows(options_.max_rows);
  if (options_.rules) load_rules();
  for (auto& event : fetched_) event = Event::create(state_.device(), {.timing = false});
}

// A copy to the ring may be under way.
Decoder::~Decoder() {
  try {
    for (const auto& event : fetched_)
      if (event) event->synchronize();
  } catch (...) {  // the error belongs to work that others wait for, too
  }
}

Array Decoder::field(std::int64_t first, DType dtype) const {
  const std::int64_t words = static_cast<std::int64_t>(itemsize(dtype)) / 4;
  return {{shape_.rows}, {1}, dtype, state_.buffer(), options_.max_rows * first / words};
}

PassInput Decoder::make_input() const {
  const std::int64_t rows = shape_.rows;
  const Array positions = field(Fields::kPosition, DType::kInt32);
  const Array tables({rows, blocks_}, {blocks_, 1}, DType::kInt32, state_.buffer(),
                     options_.max_rows * Fields::kTables);
  PassInput input{rows,
                  rows,
                  1,
                  true,
                  options_.num_layers,
                  field(Fields::kToken, DType::kInt32),
                  positions,
                  ops::slot_mapping(tables, positions, std::nullopt, runner_->options().page,
                                    slice_axis(slots_, 0, 0, rows, 1)),
                  slice_axis(iota_, 0, 0, rows + 1, 1),
                  field(Fields::kLength, DType::kInt32),
                  tables,
                  slice_axis(iota_, 0, 0, rows, 1)};
  if (runner_->border() > 0) input.rope_rows = field(Fields::kRope, DType::kInt32);
  if (cross_blocks_ > 0) {
    input.cross_lengths = field(Fields::kCrossLength, DType::kInt32);
    input.cross_tables = Array({rows, cross_blocks_}, {cross_blocks_, 1}, DType::kInt32,
                               state_.buffer(), options_.max_rows * (Fields::kTables + blocks_));
  }
  return input;
}

void Decoder::load(std::span<const DecodeRow> rows, bool pads) {
  const auto count = static_cast<std::int64_t>(rows.size());
  if (count < 1 || count > options_.max_rows)
    throw InvalidArgument(cat(kOp, ": ", count, " rows, expected 1 to ", options_.max_rows));
  const std::int64_t vocabulary = runner_->model().config().vocab_size;
  Shape shape{pads ? std::min(bucket_of(count), options_.max_rows) : count};
  for (const DecodeRow& row : rows) {
    if (row.token < 0 || row.token >= vocabulary)
      throw InvalidArgument(cat(kOp, ": token ", row.token, ", expected 0 to ", vocabulary - 1));
    const std::int64_t room = static_cast<std::int64_t>(row.table.size()) * runner_->options().page;
    if (row.position < 0 || (pads && row.position >= room))
      throw InvalidArgument(
          cat(kOp, ": position ", row.position, ", but the sequence has pages for ", room));
    if (pads) runner_->check_border(row.far, row.position + 1, kOp);
    const auto bits = static_cast<std::size_t>(ceil_div(vocabulary, std::int64_t{32}));
    if (!row.mask.empty() && row.mask.size() != bits)
      throw InvalidArgument(cat(kOp, ": mask has ", row.mask.size(), " words, expected ", bits));
    shape.masked |= !row.mask.empty();
    if (row.sampling == nullptr) continue;
    shape.sampled |= row.sampling->temperature > 0.0;
    shape.penalized |= row.sampling->has_penalty();
    shape.logprobs = std::max(shape.logprobs, row.sampling->logprobs);
  }
  shape_ = shape;
  num_rows_ = count;

  static constexpr SamplingOptions kGreedy;
  std::fill(host_.begin(), host_.end(), 0u);
  const auto at = [&](std::int64_t field, std::int64_t row) {
    return static_cast<std::size_t>(options_.max_rows * field + row);
  };
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    const bool is_padding = i >= count;
    const DecodeRow row = is_padding ? DecodeRow{} : rows[static_cast<std::size_t>(i)];
    const SamplingOptions& s = row.sampling == nullptr ? kGreedy : *row.sampling;
    std::memcpy(&host_[at(Fields::kSeed, 2 * i)], &s.seed, 8);
    std::memcpy(&host_[at(Fields::kDraws, 2 * i)], &row.draws, 8);
    const auto number = [&](std::int64_t field, double value) {
      host_[at(field, i)] = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    };
    const auto integer = [&](std::int64_t field, std::int64_t value) {
      host_[at(field, i)] = static_cast<std::uint32_t>(value);
    };
    number(Fields::kTemperature, s.temperature);
    number(Fields::kTopP, s.top_p);
    number(Fields::kMinP, s.min_p);
    number(Fields::kTypicalP, s.typical_p);
    number(Fields::kRepetition, s.repetition_penalty);
    number(Fields::kPresence, s.presence_penalty);
    number(Fields::kFrequency, s.frequency_penalty);
    integer(Fields::kTopK, std::min(s.top_k, vocabulary));
    integer(Fields::kToken, row.token);
    // Padding rows have no keys, and never will: their writes are skipped.
    integer(Fields::kPosition, row.position);
    integer(Fields::kRope, row.position + (row.far ? runner_->options().max_length : 0));
    integer(Fields::kLength, is_padding ? 0 : row.position + 1);
    integer(Fields::kAdvance, is_padding ? 0 : 1);
    const TokenHistory& h = row.rules;
    const std::int32_t history[kNumHistoryFields] = {h.count, h.last, h.before, h.newest};
    for (int k = 0; k < kNumHistoryFields; ++k) integer(Fields::kHistory + k, history[k]);
    const std::size_t table = at(Fields::kTables, i * blocks_);
    if (is_padding)
      std::fill_n(&host_[table], blocks_, ~0u);
    else
      std::copy(row.table.begin(), row.table.end(), &host_[table]);
  }
  if (cross_blocks_ > 0) load_cross(rows);
  const std::int64_t used = cross_blocks_ > 0
                                ? state_.size()
                                : options_.max_rows * Fields::kTables + shape.rows * blocks_;
  device::copy_from_host(slice_axis(state_, 0, 0, used, 1), host_.data());
  if (shape.penalized) load_counts(rows);
  if (shape.masked) load_masks(rows);
}

// Padding rows have no source: their length is 0.
void Decoder::load_cross(std::span<const DecodeRow> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].source == nullptr)
      throw InvalidArgument(
          cat(kOp, ": a row has no source, expected one for ", runner_->model().spec().name));
    host_[static_cast<std::size_t>(options_.max_rows * Fields::kCrossLength) + i] =
        static_cast<std::uint32_t>(rows[i].source->length());
    const std::span<const std::int32_t> table = rows[i].source->table();
    const std::int64_t first = options_.max_rows * (Fields::kTables + blocks_);
    std::copy(table.begin(), table.end(),
              host_.begin() + first + static_cast<std::int64_t>(i) * cross_blocks_);
  }
}

void Decoder::load_rules() {
  const ModelConfig& config = runner_->model().config();
  const Device device = runner_->model().device();
  const auto bits_of = [&](const std::vector<std::int32_t>& ids) {
    std::vector<std::uint32_t> bits(
        static_cast<std::size_t>(ceil_div(config.vocab_size, std::int64_t{32})));
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= config.vocab_size)
        throw InvalidArgument(
            cat(kOp, ": token ", id, " is suppressed, expected 0 to ", config.vocab_size - 1));
      bits[static_cast<std::size_t>(id / 32)] |= 1u << (id % 32);
    }
    return device::from_host(bits.data(), {static_cast<std::int64_t>(bits.size())}, DType::kUInt32,
                             device);
  };
  suppressed_ = bits_of(options_.rules->suppressed);
  begin_suppressed_ = bits_of(options_.rules->begin_suppressed);
  allowed_ =
      Array::empty({options_.max_rows, config.vocab_size}, runner_->model().dtype(), device, kOp);
}

// Logits without the tokens that may not come next. The token of each row becomes part of its
// history.
Array Decoder::apply_rules(const Array& logits) const {
  const TokenRules& rules = *options_.rules;
  const Array history({kNumHistoryFields, shape_.rows}, {options_.max_rows, 1}, DType::kInt32,
                      state_.buffer(), options_.max_rows * Fields::kHistory);
  return ops::timestamp_rules(logits, field(Fields::kToken, DType::kInt32), history,
                              {*suppressed_, *begin_suppressed_, rules.eos, rules.first_timestamp,
                               rules.max_initial_timestamp},
                              slice_axis(*allowed_, 0, 0, shape_.rows, 1));
}

void Decoder::load_counts(std::span<const DecodeRow> rows) {
  const Device device = runner_->model().device();
  if (!counts_)
    counts_ = Array::empty({options_.max_rows, runner_->model().config().vocab_size}, DType::kInt32,
                           device, kOp);
  ops::fill(slice_axis(*counts_, 0, 0, shape_.rows, 1), Scalar(std::int64_t{0}), kOp);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const std::int32_t> history = rows[i].history;
    if (history.empty()) continue;
    const Array ids = device::from_host(
        history.data(), {1, static_cast<std::int64_t>(history.size())}, DType::kInt32, device);
    ops::count_tokens(slice_axis(*counts_, 0, static_cast<std::int64_t>(i), 1, 1), ids);
  }
}

void Decoder::load_masks(std::span<const DecodeRow> rows) {
  const std::int64_t words = ceil_div(runner_->model().config().vocab_size, std::int64_t{32});
  if (!masks_)
    masks_ =
        Array::empty({options_.max_rows, words}, DType::kUInt32, runner_->model().device(), kOp);
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(shape_.rows * words), ~0u);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::copy(rows[i].mask.begin(), rows[i].mask.end(),
              bits.begin() + static_cast<std::ptrdiff_t>(i) * words);
  device::copy_from_host(slice_axis(*masks_, 0, 0, shape_.rows, 1), bits.data());
}

// The token after each row of logits, and what is known of it.
void Decoder::draw(const Array& logits, Step& step) const {
  const Array tokens = field(Fields::kToken, DType::kInt32);
  const Array allowed = options_.rules ? apply_rules(logits) : logits;
  ops::SampleFilter filter;
  ops::SampleSource source;
  filter.temperature.value = 0.0;
  if (shape_.sampled) {
    filter.temperature.values = field(Fields::kTemperature, DType::kFloat32);
    filter.top_k.values = field(Fields::kTopK, DType::kInt32);
    filter.top_p.values = field(Fields::kTopP, DType::kFloat32);
    filter.min_p.values = field(Fields::kMinP, DType::kFloat32);
    filter.typical_p.values = field(Fields::kTypicalP, DType::kFloat32);
    source.seed.values = field(Fields::kSeed, DType::kInt64);
    source.step.values = field(Fields::kDraws, DType::kInt64);
  }
  if (shape_.penalized) {
    filter.repetition_penalty.values = field(Fields::kRepetition, DType::kFloat32);
    filter.presence_penalty.values = field(Fields::kPresence, DType::kFloat32);
    filter.frequency_penalty.values = field(Fields::kFrequency, DType::kFloat32);
    filter.counts = slice_axis(*counts_, 0, 0, shape_.rows, 1);
    ops::count_tokens(*filter.counts, tokens);
  }
  if (shape_.masked) filter.mask = slice_axis(*masks_, 0, 0, shape_.rows, 1);
  ops::sample(allowed, filter, source, tokens);
  if (shape_.logprobs > 0 || options_.keeps_logprobs)
    step.logprobs = ops::token_logprobs(allowed, tokens, shape_.logprobs);
  if (shape_.logprobs > 0 && options_.rules)
    step.raw = ops::token_logprobs(logits, tokens, 0).chosen;
}

void Decoder::enqueue(Step& step) {
  const PassInput in = make_input();
  LayerChain* const chain = runner_->options().persistent ? &chains_[shape_.rows] : nullptr;
  draw(runner_->enqueue(in, chain), step);
  const Array advance = field(Fields::kAdvance, DType::kInt32);
  ops::add(*in.positions, advance, &*in.positions);
  ops::add(*in.lengths, advance, &*in.lengths);
  if (in.rope_rows) ops::add(*in.rope_rows, advance, &*in.rope_rows);
}

// The first step of a shape loads kernels, the second is captured.
void Decoder::run() {
  Step& step = steps_[shape_];
  if (!step.was_run || !options_.use_graph) {
    enqueue(step);
    step.was_run = true;
  } else {
    if (!step.graph) {
      auto graph = std::make_unique<Graph>(runner_->model().device());
      graph->begin_capture();
      try {
        enqueue(step);
        graph->end_capture();
      } catch (...) {
        graph->abandon_capture();
        throw;
      }
      step.graph = std::move(graph);
    }
    step.graph->replay();
  }
  scores_ = step.logprobs;
  raw_scores_ = step.raw;
  fetch(field(Fields::kToken, DType::kInt32));
}

void Decoder::fetch(const Array& tokens) {
  const auto slot = static_cast<std::size_t>(num_launches_++ % kRing);
  auto* const dst = static_cast<std::int32_t*>(ring_->data()) +
                    slot * static_cast<std::size_t>(options_.max_rows);
  device::copy_to_pinned(slice_axis(tokens, 0, 0, num_rows_, 1), dst);
  if (options_.keeps_logprobs)
    device::copy_to_pinned(slice_axis(scores_->chosen, 0, 0, num_rows_, 1),
                           dst + kRing * options_.max_rows);
  fetched_[slot]->record(*current_stream(tokens.device()));
  fetched_rows_[slot] = num_rows_;
}

std::string Decoder::explain() const {
  const auto found = chains_.find(shape_.rows);
  return found == chains_.end() ? "a launch for each op\n" : found->second.explain();
}

void Decoder::launch(std::span<const DecodeRow> rows) {
  load(rows, true);
  run();
}

void Decoder::launch() {
  if (num_rows_ == 0) throw InvalidArgument(cat(kOp, ": no rows were given yet"));
  run();
}

// Waits for it.
std::size_t Decoder::ring_slot(std::int64_t back) {
  if (back < 0 || back >= std::min(kRing, num_launches_))
    throw InvalidArgument(
        cat(kOp, ": back is ", back, ", expected 0 to ", std::min(kRing, num_launches_) - 1));
  const auto slot = static_cast<std::size_t>((num_launches_ - 1 - back) % kRing);
  fetched_[slot]->synchronize();
  return slot;
}

std::span<const std::int32_t> Decoder::tokens(std::int64_t back) {
  const std::size_t slot = ring_slot(back);
  const auto* const data = static_cast<const std::int32_t*>(ring_->data());
  return {data + slot * static_cast<std::size_t>(options_.max_rows),
          static_cast<std::size_t>(fetched_rows_[slot])};
}

std::span<const float> Decoder::logprobs(std::int64_t back) {
  if (!options_.keeps_logprobs)
    throw InvalidArgument(cat(kOp, ": log-probabilities are not kept, expected keeps_logprobs"));
  const std::size_t slot = ring_slot(back);
  const auto* const data = static_cast<const float*>(ring_->data()) + kRing * options_.max_rows;
  return {data + slot * static_cast<std::size_t>(options_.max_rows),
          static_cast<std::size_t>(fetched_rows_[slot])};
}

std::vector<TokenScore> Decoder::scores() {
  if (!scores_) return {};
  const ops::TokenLogprobs& all = *scores_;
  const auto n = static_cast<std::size_t>(shape_.logprobs);
  const auto rows = static_cast<std::size_t>(shape_.rows);
  std::vector<float> chosen(rows), logprobs(rows * n);
  std::vector<std::int32_t> ids(rows * n);
  device::to_host(all.chosen, chosen.data());
  device::to_host(all.ids, ids.data());
  device::to_host(all.logprobs, logprobs.data());
  std::vector<float> raw = chosen;
  if (raw_scores_) device::to_host(*raw_scores_, raw.data());
  std::vector<TokenScore> scores(static_cast<std::size_t>(num_rows_));
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i].logprob = chosen[i];
    scores[i].raw_logprob = raw[i];
    for (std::size_t j = i * n; j < (i + 1) * n; ++j)
      scores[i].top.emplace_back(ids[j], logprobs[j]);
  }
  return scores;
}

std::span<const std::int32_t> Decoder::sample(const Array& logits,
                                              std::span<const DecodeRow> rows) {
  load(rows, false);
  Step step;
  draw(logits, step);
  scores_ = step.logprobs;
  raw_scores_ = step.raw;
  fetch(field(Fields::kToken, DType::kInt32));
  return this->tokens();
}

}  // namespace gpk::llm
