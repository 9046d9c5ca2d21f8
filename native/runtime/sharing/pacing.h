// Pacing of launches by count and interval: the rule of the 0.2 API. Shares of measured GPU time or
// bytes are SharePacer's (runtime/sharing/pacing_share.h).
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

#include "runtime/clock.h"

namespace gpk::runtime {

struct PacingConfig {
  double total_bandwidth = 1.0;  // what the shares of all streams may add up to
  double window_ms = 100.0;
  double min_interval_ms = 0.1;
  bool adaptive = true;  // part of the 0.2 signature; the rule has no part that adapts
};

struct PacingDecision {
  enum class Type { kLaunch, kWait, kThrottle };
  Type type = Type::kLaunch;
  double wait_ms = 0.0;  // infinite when throttled
  [[nodiscard]] bool can_launch() const noexcept { return type == Type::kLaunch; }
  [[nodiscard]] bool is_throttled() const noexcept { return type == Type::kThrottle; }
  [[nodiscard]] const char* decision_type() const noexcept;  // "Launch", "Wait", "Throttle"
};

struct StreamPacingStats {
  std::uint64_t stream_id = 0;
  double share = 0.0;
  std::uint64_t num_launches = 0;
  std::uint64_t num_throttles = 0;
  std::uint64_t num_waits = 0;
  double total_wait_ms = 0.0;
  std::size_t launches_in_window = 0;
};

struct PacingStats {
  std::size_t num_streams = 0;
  double used_bandwidth = 0.0;
  double available_bandwidth = 0.0;
  std::uint64_t num_launches = 0;
  std::uint64_t num_throttles = 0;
  std::uint64_t num_waits = 0;
};

// Thread safe. Streams that were never allocated are not paced: every launch is allowed and nothing
// is recorded for them.
class KernelPacingEngine {
 public:
  // kValue when a number is not finite or negative, or the total is 0. `clock` outlives the engine.
  KernelPacingEngine(const Clock& clock, PacingConfig config = {});

  // False when the shares would pass the total; kValue when `share` is outside 0..total. A stream
  // that is there already gets the new share.
  bool allocate_stream(std::uint64_t stream_id, double share);
  bool release_stream(std::uint64_t stream_id);  // false when unknown

  // The first of these that holds:
  //   unknown stream, or nothing launched yet  -> Launch
  //   elapsed < min_interval                   -> Wait(min_interval - elapsed)
  //   elapsed < window * (1 - share)           -> Wait(the rest)
  //   launches inside the window >= max(1, ceil(share * 100)) -> Throttle
  //   otherwise                                -> Launch
  // Changes nothing; elapsed counts from the last recorded launch.
  [[nodiscard]] PacingDecision should_launch(std::uint64_t stream_id) const;

  void record_launch(std::uint64_t stream_id);
  void record_throttle(std::uint64_t stream_id);
  void record_wait(std::uint64_t stream_id, double wait_ms);

  [[nodiscard]] std::optional<StreamPacingStats> stream_stats(std::uint64_t stream_id) const;
  [[nodiscard]] PacingStats stats() const;
  [[nodiscard]] const PacingConfig& config() const noexcept { return config_; }
  void reset();  // forgets launches and counters; the shares stay

 private:
  struct Stream {
    double share = 0.0;
    std::int64_t last_launch_ns = -1;          // -1: none yet
    std::deque<std::int64_t> recent_launches;  // as many as can decide
    std::uint64_t num_launches = 0;
    std::uint64_t num_throttles = 0;
    std::uint64_t num_waits = 0;
    double total_wait_ms = 0.0;
  };

  [[nodiscard]] std::size_t launches_in_window(const Stream& stream, std::int64_t now_ns) const;
  [[nodiscard]] double used_bandwidth() const;

  const Clock& clock_;
  const PacingConfig config_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Stream> streams_;
};

}  // namespace gpk::runtime
