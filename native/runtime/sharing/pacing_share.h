// Shares one resource among members (partitions or streams) by measured use: GPU time in
// nanoseconds, or bytes on a link.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "runtime/sharing/pacing_bucket.h"

namespace gpk::runtime {

// While several members have demand, each gets its share of what is used. Work conserving: the
// share of an idle member goes to the others in proportion to theirs, except that a capped member
// gets at most its share of the capacity over time.
//
// Algorithm: every member has a virtual time, its use divided by its share. A member may start work
// while it is at most `burst` ahead of the furthest-behind member with demand. Overdraft is kept
// (it waits for the others to catch up); a share not used while idle is lost. Work in flight counts
// with the member's moving average cost until it is measured.
//
// Two members that always have demand deviate from their shares by at most `burst` plus the cost of
// what one of them has in flight, over any time span. Thread safe.
class SharePacer {
 public:
  using MemberId = std::uint64_t;

  struct Options {
    double capacity_per_ns = 1.0;          // 1 for GPU time; bytes per nanosecond for a link
    std::int64_t window_ns = 100'000'000;  // usage is reported per window
    double burst = 500'000.0;              // in units of the amount
    // A member with nothing in flight and no request for this long yields its share.
    std::int64_t idle_after_ns = 1'000'000;
  };

  struct Stats {
    double share = 0.0;
    bool capped = false;
    bool active = false;
    double used = 0.0;  // since the start
    double used_in_window = 0.0;
    double last_window_share = 0.0;  // of the capacity, in the last complete window
    std::size_t num_in_flight = 0;
    std::uint64_t num_started = 0;
    std::uint64_t num_refused = 0;
  };

  // kValue for options that are not above 0. `clock` outlives the pacer.
  SharePacer(const Clock& clock, Options options);
  explicit SharePacer(const Clock& clock) : SharePacer(clock, Options{}) {}

  // 0 < share <= 1 and a new id, else kValue; kState when the sum of shares would exceed 1.
  void add(MemberId id, double share, bool capped = false);
  // Work in flight is dropped. kValue for an unknown id, here and below.
  void remove(MemberId id);
  [[nodiscard]] bool contains(MemberId id) const;

  // Between these two `id` counts as having demand throughout: it has work that could start. Calls
  // may be nested.
  void begin_demand(MemberId id);
  void end_demand(MemberId id);

  // Whether `id` may start work now. Counts as demand.
  [[nodiscard]] bool allowed(MemberId id);
  // allowed(), and if so the work is in flight: end() or abandon() must follow.
  [[nodiscard]] bool try_begin(MemberId id);
  // The oldest work in flight of `id` is done and cost `amount` >= 0.
  void end(MemberId id, double amount);
  // The newest work in flight was not submitted.
  void abandon(MemberId id);
  // Work not announced by try_begin().
  void charge(MemberId id, double amount);

  // After a refusal: nanoseconds after which to try again. Exact for a capped member without
  // credit; otherwise it depends on others and is a fraction of idle_after_ns.
  [[nodiscard]] std::int64_t retry_in_ns(MemberId id);

  [[nodiscard]] Stats stats(MemberId id) const;

 private:
  struct Member {
    double share = 0.0;
    std::optional<TokenBucket> cap;
    double virtual_time = 0.0;
    bool active = false;
    std::size_t num_demands = 0;
    std::int64_t asked_ns = 0;
    std::deque<double> in_flight;  // what each unit was charged in advance, oldest first
    double mean_cost = 0.0;
    double used = 0.0;
    std::int64_t window = 0;  // index of the window used_in_window refers to
    double used_in_window = 0.0;
    double last_window_used = 0.0;
    std::uint64_t num_started = 0;
    std::uint64_t num_refused = 0;
  };

  Member& member(MemberId id);
  void ask(Member& asking, std::int64_t now_ns);
  [[nodiscard]] bool may_start(Member& asking, std::int64_t now_ns);
  void use(Member& user, double amount, double charged_before, std::int64_t now_ns);
  void roll_window(Member& of, std::int64_t now_ns) const;

  const Clock& clock_;
  const Options options_;
  const std::int64_t start_ns_;
  mutable std::mutex mutex_;
  std::map<MemberId, Member> members_;
  double virtual_now_ = 0.0;  // the minimum virtual time of active members; monotonic
};

}  // namespace gpk::runtime
