// Vector clocks: what an agent (a warp, or an mbarrier that asynchronous copies report to) knows of
// the others.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace gpk::sim {

// An agent: its cluster's number, and its own in the cluster. 0 is no agent.
using Agent = std::uint32_t;
inline constexpr unsigned kAgentBits = 12;
inline constexpr std::uint32_t kMaxAgents = 1u << kAgentBits;  // of a cluster
inline constexpr Agent kAgentMask = kMaxAgents - 1;

class Clock {
 public:
  std::uint32_t at(Agent agent) const {
    if (agent >> kAgentBits == cluster_) {
      const std::uint32_t index = agent & kAgentMask;
      return index < own_.size() ? own_[index] : 0;
    }
    return remote(agent);
  }
  void raise(Agent agent, std::uint32_t value);
  void join(const Clock& other);
  bool empty() const { return own_.empty() && others_.empty(); }
  void clear();

 private:
  std::uint32_t remote(Agent agent) const;

  std::uint32_t cluster_ = 0;                            // of own_; 0: none yet
  std::vector<std::uint32_t> own_;                       // by agent of that cluster
  std::vector<std::pair<Agent, std::uint32_t>> others_;  // sorted
};

// What is handed on where agents synchronise.
struct Knowledge {
  Clock now;      // what happened before
  Clock fenced;   // of that, what came before a fence: a relaxed flag hands on no more
  Clock proxied;  // and before a fence.proxy.async: what asynchronous operations may read
  void join(const Knowledge& other);
  void clear();
};

}  // namespace gpk::sim
