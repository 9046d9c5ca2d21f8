// A request of an engine, and everything it holds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "llm/decoder.h"
#include "llm/kv_swap.h"
#include "llm/request_state.h"
#include "runtime/scheduler/qos.h"

namespace gpk::llm {

// Sets a bit for each token that may follow `token`, which is -1 before the first one. False: the
// text ends here.
using MaskFunction = std::function<bool(std::int32_t token, std::span<std::uint32_t> bits)>;

struct RequestOptions {
  std::vector<std::int32_t> prompt;
  std::int64_t max_new_tokens = 20;
  SamplingOptions sampling;
  std::vector<std::int32_t> stop_tokens;  // the one that was found is the last token
  runtime::QosClass qos = runtime::QosClass::kBestEffort;
  int priority = 0;             // higher is earlier; the class's is added
  std::int64_t timeout_ns = 0;  // it fails that long after its submission; 0: never
  MaskFunction mask;            // empty: all tokens
};

enum class FinishReason : std::uint8_t { kStop, kLength, kCancelled, kDeadline, kFailed };
[[nodiscard]] const char* to_string(FinishReason reason) noexcept;  // "stop", ...

struct RequestTimes {  // on the engine's clock; -1: not yet
  std::int64_t submitted_ns = -1;
  std::int64_t first_token_ns = -1;
  std::int64_t ended_ns = -1;
};

// Its destructor gives back pages and host memory.
class Request {
 public:
  Request(std::uint64_t id, RequestOptions options, Sequence sequence, std::int64_t now_ns,
          std::int64_t aging_ns, std::int64_t vocab_size);
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] const RequestOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::int64_t priority() const noexcept;  // with its class's
  [[nodiscard]] std::int64_t rank() const noexcept { return rank_; }
  [[nodiscard]] bool is_late(std::int64_t now_ns) const noexcept {
    return options_.timeout_ns > 0 && now_ns - times.submitted_ns >= options_.timeout_ns;
  }

  [[nodiscard]] RequestState state() const noexcept { return state_; }
  // Throws Error for a step that request_state.h does not have.
  void enter(RequestState state);

  [[nodiscard]] std::span<const std::int32_t> prompt() const noexcept { return options_.prompt; }
  // Tokens of the prompt that are not in the cache.
  [[nodiscard]] std::int64_t prompt_left() const noexcept;
  [[nodiscard]] std::int64_t num_new() const noexcept {
    return static_cast<std::int64_t>(tokens_.size() - options_.prompt.size());
  }
  // Tokens in the cache at most.
  [[nodiscard]] std::int64_t most_tokens() const noexcept {
    return static_cast<std::int64_t>(options_.prompt.size()) + options_.max_new_tokens - 1;
  }

  // For the decoder: its newest token.
  [[nodiscard]] DecodeRow row() const;
  // True when a step after the next may be started before the next one's token is known.
  [[nodiscard]] bool can_run_ahead() const noexcept {
    return !options_.mask && options_.sampling.logprobs == 0;
  }
  // One more token; why the text ends with it, if it does. Throws what the mask throws.
  std::optional<FinishReason> append(std::int32_t token);
  // Asks the mask for the first token. False: the text ends before it.
  bool start_mask() { return ask_mask(-1); }

  Sequence sequence;
  std::optional<SwappedSequence> swapped;
  RequestTimes times;

 private:
  bool ask_mask(std::int32_t token);

  std::uint64_t id_;
  RequestOptions options_;
  std::int64_t rank_;
  RequestState state_ = RequestState::kWaiting;
  std::vector<std::int32_t> tokens_;  // the prompt, then the new ones
  std::vector<std::uint32_t> mask_;
};

}  // namespace gpk::llm
