// What an engine does in one step: who is admitted, preempted and restored, whose prompt goes
// through the model, who gets a token. A pure function.
//
// Requests are served in the order of their ranks, which age: priority p is passed by priority q
// only when that one came less than (q - p) * aging later, so nobody starves. A request with a
// higher priority takes pages from those behind it and has the prefill pass to itself; between
// equals only a text that grows takes pages from a later one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "llm/request_state.h"

namespace gpk::llm {

struct PolicyRequest {
  std::uint64_t id = 0;
  std::int64_t priority = 0;  // its own and its class's
  RequestState state = RequestState::kWaiting;
  std::int64_t prompt_left = 0;    // tokens that have not been through the model
  std::int64_t pages_wanted = 0;   // more of them to continue; unknown of those that wait
  std::int64_t pages_freed = 0;    // by preemption
  std::int64_t pages_swapped = 0;  // in host memory, after preemption
};

struct PolicyLimits {
  std::int64_t pages = 0;       // free, or held by the prefix cache alone
  std::int64_t host_pages = 0;  // free
  std::int64_t max_rows = 0;    // requests that get a token, and that hold pages
  std::int64_t max_prefill_tokens = 0;
  std::int64_t max_prefill_sequences = 0;
};

struct StepPlan {
  struct Chunk {
    std::uint64_t id = 0;
    std::int64_t tokens = 0;
    friend bool operator==(const Chunk&, const Chunk&) = default;
  };
  std::vector<std::uint64_t> preempted;  // before all others
  std::vector<std::uint64_t> restored;
  std::vector<std::uint64_t> admitted;
  std::vector<Chunk> prefill;
  std::vector<std::uint64_t> rows;
  std::vector<std::uint64_t> dropped;  // neither pages nor host memory for them, nor for others
};

// Smaller is earlier. `priority` as in PolicyRequest, aging in ns per step of priority.
[[nodiscard]] std::int64_t request_rank(std::int64_t submitted_ns, std::int64_t priority,
                                        std::int64_t aging_ns) noexcept;

// `requests` in the order of their ranks. `pages_to_admit`: what a waiting one takes; asked for
// those that may be admitted only.
[[nodiscard]] StepPlan plan_step(
    std::span<const PolicyRequest> requests, const PolicyLimits& limits,
    const std::function<std::int64_t(std::uint64_t id)>& pages_to_admit);

}  // namespace gpk::llm
