#include "llm/request.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "llm/engine_policy.h"

namespace gpk::llm {

const char* to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kDeadline: return "deadline";
    case FinishReason::kFailed: return "failed";
  }
  return "?";
}

Request::Request(std::uint64_t id, RequestOptions options, Sequence empty, std::int64_t now_ns,
                 std::int64_t aging_ns, std::int64_t vocab_size)
    : sequence(std::move(empty)),
      id_(id),
      options_(std::move(options)),
      rank_(request_rank(now_ns, priority(), aging_ns)),
      tokens_(options_.prompt) {
  times.submitted_ns = now_ns;
  if (options_.mask) mask_.resize(static_cast<std::size_t>(ceil_div(vocab_size, std::int64_t{32})));
}

std::int64_t Request::priority() const noexcept {
  return std::int64_t{options_.priority} + runtime::class_priority(options_.qos);
}

void Request::enter(RequestState state) {
  if (!can_enter(state_, state))
    throw Error(cat("engine: request ", id_, " is ", to_string(state_), " and cannot become ",
                    to_string(state)));
  state_ = state;
}

std::int64_t Request::prompt_left() const noexcept {
  const std::int64_t held = swapped ? swapped->length() : sequence.length();
  return std::max<std::int64_t>(static_cast<std::int64_t>(options_.prompt.size()) - held, 0);
}

DecodeRow Request::row() const {
  DecodeRow row;
  row.token = tokens_.back();
  row.position = static_cast<std::int64_t>(tokens_.size()) - 1;
  row.table = sequence.table();
  row.far = sequence.far();
  row.sampling = &options_.sampling;
  row.draws = num_new();
  if (options_.sampling.has_penalty()) row.history = std::span(tokens_).first(tokens_.size() - 1);
  row.mask = mask_;
  return row;
}

bool Request::ask_mask(std::int32_t token) {
  if (!options_.mask) return true;
  std::fill(mask_.begin(), mask_.end(), 0U);
  return options_.mask(token, mask_) &&
         std::any_of(mask_.begin(), mask_.end(), [](std::uint32_t bits) { return bits != 0; });
}

std::optional<FinishReason> Request::append(std::int32_t token) {
  tokens_.push_back(token);
  const std::vector<std::int32_t>& stops = options_.stop_tokens;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) return FinishReason::kStop;
  if (!ask_mask(token)) return FinishReason::kStop;
  if (num_new() == options_.max_new_tokens) return FinishReason::kLength;
  return std::nullopt;
}

}  // namespace gpk::llm
