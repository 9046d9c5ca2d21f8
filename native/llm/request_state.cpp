#include "llm/request_state.h"

namespace gpk::llm {

const char* to_string(RequestState state) noexcept {
  switch (state) {
    case RequestState::kWaiting: return "waiting";
    case RequestState::kPrefilling: return "prefilling";
    case RequestState::kRunning: return "running";
    case RequestState::kSwapped: return "swapped";
    case RequestState::kFinished: return "finished";
    case RequestState::kCancelled: return "cancelled";
    case RequestState::kFailed: return "failed";
  }
  return "?";
}

}  // namespace gpk::llm
