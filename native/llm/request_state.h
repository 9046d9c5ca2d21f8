// The life of a request.
//
// waiting --> prefilling --> running --> finished
//                 ^             ^
//                 +-- swapped --+        and back; each of the first four may also end as
//                                        cancelled or failed
//
// waiting: holds nothing. prefilling: holds pages, its prompt goes through the model. running: gets
// a token a step. swapped: what it had in pages is in host memory.
#pragma once

#include <cstdint>

namespace gpk::llm {

enum class RequestState : std::uint8_t {
  kWaiting,
  kPrefilling,
  kRunning,
  kSwapped,
  kFinished,
  kCancelled,
  kFailed,
};

[[nodiscard]] constexpr bool has_ended(RequestState state) noexcept {
  return state >= RequestState::kFinished;
}
[[nodiscard]] constexpr bool holds_pages(RequestState state) noexcept {
  return state == RequestState::kPrefilling || state == RequestState::kRunning;
}
[[nodiscard]] constexpr bool can_enter(RequestState from, RequestState to) noexcept {
  if (has_ended(from)) return false;
  if (to == RequestState::kCancelled || to == RequestState::kFailed) return true;
  switch (from) {
    case RequestState::kWaiting:
      return to == RequestState::kPrefilling || to == RequestState::kFinished;
    case RequestState::kPrefilling:
      return to == RequestState::kRunning || to == RequestState::kSwapped ||
             to == RequestState::kFinished;
    case RequestState::kRunning:
      return to == RequestState::kSwapped || to == RequestState::kFinished;
    case RequestState::kSwapped:
      return to == RequestState::kRunning || to == RequestState::kPrefilling;
    default: return false;
  }
}
[[nodiscard]] const char* to_string(RequestState state) noexcept;  // "waiting", ...

}  // namespace gpk::llm
