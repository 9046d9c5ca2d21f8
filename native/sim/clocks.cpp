#include "sim/clocks.h"

#include <algorithm>

namespace gpk::sim {

void Clock::clear() {
  cluster_ = 0;
  own_.clear();
  others_.clear();
}

void Clock::raise(Agent agent, std::uint32_t value) {
  const std::uint32_t cluster = agent >> kAgentBits;
  if (cluster_ == 0) cluster_ = cluster;
  if (cluster == cluster_) {
    const std::uint32_t index = agent & kAgentMask;
    if (index >= own_.size()) own_.resize(index + 1);
    own_[index] = std::max(own_[index], value);
    return;
  }
  const auto at = std::lower_bound(others_.begin(), others_.end(), std::pair(agent, 0u));
  if (at != others_.end() && at->first == agent)
    at->second = std::max(at->second, value);
  else
    others_.insert(at, {agent, value});
}

void Clock::join(const Clock& other) {
  if (other.empty()) return;
  if (cluster_ == 0) cluster_ = other.cluster_;
  if (other.cluster_ == cluster_) {
    if (own_.size() < other.own_.size()) own_.resize(other.own_.size());
    for (std::size_t i = 0; i < other.own_.size(); ++i) own_[i] = std::max(own_[i], other.own_[i]);
  } else {
    for (std::size_t i = 0; i < other.own_.size(); ++i)
      if (other.own_[i] != 0)
        raise(other.cluster_ << kAgentBits | static_cast<Agent>(i), other.own_[i]);
  }
  for (const auto& [agent, value] : other.others_) raise(agent, value);
}

std::uint32_t Clock::remote(Agent agent) const {
  const auto at = std::lower_bound(others_.begin(), others_.end(), std::pair(agent, 0u));
  return at != others_.end() && at->first == agent ? at->second : 0;
}

void Knowledge::join(const Knowledge& other) {
  now.join(other.now);
  fenced.join(other.fenced);
  proxied.join(other.proxied);
}

void Knowledge::clear() {
  now.clear();
  fenced.clear();
  proxied.clear();
}

}  // namespace gpk::sim
