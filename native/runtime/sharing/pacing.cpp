#include "runtime/sharing/pacing.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/error.h"

namespace gpk::runtime {
namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kRounding = 1e-9;  // 0.5 + 0.3 + 0.2 is not 1.0

std::size_t max_launches(double share) {
  return static_cast<std::size_t>(std::max(1.0, std::ceil(share * 100.0 - kRounding)));
}

void check_number(const char* name, double value, double smallest) {
  if (std::isfinite(value) && value >= smallest) return;
  throw Error(Error::Kind::kValue, std::string("PacingConfig: ") + name +
                                       " must be finite and not negative, got " +
                                       std::to_string(value));
}

}  // namespace

const char* PacingDecision::decision_type() const noexcept {
  switch (type) {
    case Type::kLaunch: return "Launch";
    case Type::kWait: return "Wait";
    case Type::kThrottle: return "Throttle";
  }
  return "?";
}

KernelPacingEngine::KernelPacingEngine(const Clock& clock, PacingConfig config)
    : clock_(clock), config_(config) {
  check_number("total_bandwidth", config.total_bandwidth, 0.0);
  check_number("window_ms", config.window_ms, 0.0);
  check_number("min_interval_ms", config.min_interval_ms, 0.0);
  if (config.total_bandwidth == 0.0)
    throw Error(Error::Kind::kValue, "PacingConfig: total_bandwidth must be above 0");
}

bool KernelPacingEngine::allocate_stream(std::uint64_t stream_id, double share) {
  if (!std::isfinite(share) || share < 0.0 || share > config_.total_bandwidth)
    throw Error(Error::Kind::kValue, "KernelPacingEngine: share must lie in 0.." +
                                         std::to_string(config_.total_bandwidth) + ", got " +
                                         std::to_string(share));
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream_id);
  const double before = found == streams_.end() ? 0.0 : found->second.share;
  if (used_bandwidth() - before + share > config_.total_bandwidth + kRounding) return false;
  streams_[stream_id].share = share;
  return true;
}

bool KernelPacingEngine::release_stream(std::uint64_t stream_id) {
  const std::lock_guard lock(mutex_);
  return streams_.erase(stream_id) > 0;
}

PacingDecision KernelPacingEngine::should_launch(std::uint64_t stream_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream_id);
  if (found == streams_.end() || found->second.last_launch_ns < 0) return {};
  const Stream& stream = found->second;
  const std::int64_t now_ns = clock_.now_ns();
  const double elapsed_ms = static_cast<double>(now_ns - stream.last_launch_ns) / kNsPerMs;
  using Type = PacingDecision::Type;
  if (elapsed_ms < config_.min_interval_ms)
    return {Type::kWait, config_.min_interval_ms - elapsed_ms};
  const double interval_ms = config_.window_ms * (1.0 - stream.share);
  if (elapsed_ms < interval_ms) return {Type::kWait, interval_ms - elapsed_ms};
  if (launches_in_window(stream, now_ns) >= max_launches(stream.share))
    return {Type::kThrottle, std::numeric_limits<double>::infinity()};
  return {};
}

std::size_t KernelPacingEngine::launches_in_window(const Stream& stream,
                                                   std::int64_t now_ns) const {
  const double start_ns = static_cast<double>(now_ns) - config_.window_ms * kNsPerMs;
  const auto first =
      std::find_if(stream.recent_launches.begin(), stream.recent_launches.end(),
                   [&](std::int64_t at_ns) { return static_cast<double>(at_ns) > start_ns; });
  return static_cast<std::size_t>(stream.recent_launches.end() - first);
}

void KernelPacingEngine::record_launch(std::uint64_t stream_id) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream_id);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  stream.last_launch_ns = clock_.now_ns();
  stream.recent_launches.push_back(stream.last_launch_ns);
  while (stream.recent_launches.size() > max_launches(stream.share))
    stream.recent_launches.pop_front();
  ++stream.num_launches;
}

void KernelPacingEngine::record_throttle(std::uint64_t stream_id) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream_id);
  if (found != streams_.end()) ++found->second.num_throttles;
}

void KernelPacingEngine::record_wait(std::uint64_t stream_id, double wait_ms) {
  if (!std::isfinite(wait_ms) || wait_ms < 0.0)
    throw Error(Error::Kind::kValue,
                "KernelPacingEngine: wait_ms must be finite and not negative, got " +
                    std::to_string(wait_ms));
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream_id);
  if (found == streams_.end()) return;
  ++found->second.num_waits;
  found->second.total_wait_ms += wait_ms;
}

std::optional<StreamPacingStats> KernelPacingEngine::stream_stats(std::uint64_t stream_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream_id);
  if (found == streams_.end()) return std::nullopt;
  const Stream& stream = found->second;
  return StreamPacingStats{stream_id,
                           stream.share,
                           stream.num_launches,
                           stream.num_throttles,
                           stream.num_waits,
                           stream.total_wait_ms,
                           launches_in_window(stream, clock_.now_ns())};
}

PacingStats KernelPacingEngine::stats() const {
  const std::lock_guard lock(mutex_);
  PacingStats sum;
  sum.num_streams = streams_.size();
  sum.used_bandwidth = used_bandwidth();
  sum.available_bandwidth = std::max(0.0, config_.total_bandwidth - sum.used_bandwidth);
  for (const auto& [id, stream] : streams_) {
    sum.num_launches += stream.num_launches;
    sum.num_throttles += stream.num_throttles;
    sum.num_waits += stream.num_waits;
  }
  return sum;
}

void KernelPacingEngine::reset() {
  const std::lock_guard lock(mutex_);
  for (auto& [id, stream] : streams_) {
    const double share = stream.share;
    stream = {};
    stream.share = share;
  }
}

double KernelPacingEngine::used_bandwidth() const {
  double sum = 0.0;
  for (const auto& [id, stream] : streams_) sum += stream.share;
  return sum;
}

}  // namespace gpk::runtime
