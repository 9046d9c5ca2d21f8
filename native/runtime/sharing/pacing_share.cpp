#include "runtime/sharing/pacing_share.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"

namespace gpk::runtime {
namespace {

constexpr double kRounding = 1e-9;     // 0.5 + 0.3 + 0.2 may exceed 1.0
constexpr double kMeanWeight = 0.125;  // of the newest cost in the moving average

void check_amount(double amount) {
  if (std::isfinite(amount) && amount >= 0.0) return;
  throw Error(Error::Kind::kValue,
              "SharePacer: amount must be finite and not negative, got " + std::to_string(amount));
}

}  // namespace

SharePacer::SharePacer(const Clock& clock, Options options)
    : clock_(clock), options_(options), start_ns_(clock.now_ns()) {
  if (!(options.capacity_per_ns > 0.0) || !(options.burst > 0.0) || options.window_ns <= 0 ||
      options.idle_after_ns <= 0 || !std::isfinite(options.capacity_per_ns) ||
      !std::isfinite(options.burst))
    throw Error(Error::Kind::kValue, "SharePacer: every option must be finite and above 0");
}

void SharePacer::add(MemberId id, double share, bool capped) {
  if (!(share > 0.0 && share <= 1.0))
    throw Error(Error::Kind::kValue,
                "SharePacer: share must be above 0 and at most 1, got " + std::to_string(share));
  const std::lock_guard lock(mutex_);
  if (members_.contains(id))
    throw Error(Error::Kind::kValue,
                "SharePacer: member " + std::to_string(id) + " already exists");
  double sum = share;
  for (const auto& [other, member] : members_) sum += member.share;
  if (sum > 1.0 + kRounding)
    throw Error(Error::Kind::kState, "SharePacer: share " + std::to_string(share) + " of member " +
                                         std::to_string(id) + " would bring the sum to " +
                                         std::to_string(sum) + ", above 1");
  Member& added = members_[id];
  added.share = share;
  if (capped) added.cap.emplace(share * options_.capacity_per_ns, options_.burst, clock_.now_ns());
}

void SharePacer::remove(MemberId id) {
  const std::lock_guard lock(mutex_);
  member(id);
  members_.erase(id);
}

bool SharePacer::contains(MemberId id) const {
  const std::lock_guard lock(mutex_);
  return members_.contains(id);
}

SharePacer::Member& SharePacer::member(MemberId id) {
  const auto found = members_.find(id);
  if (found == members_.end())
    throw Error(Error::Kind::kValue, "SharePacer: no member " + std::to_string(id));
  return found->second;
}

// Updates the set of active members; `asking` is one of them afterwards.
void SharePacer::ask(Member& asking, std::int64_t now_ns) {
  double least = std::numeric_limits<double>::infinity();
  for (auto& [id, other] : members_) {
    if (other.active && other.num_demands == 0 && other.in_flight.empty() &&
        now_ns - other.asked_ns > options_.idle_after_ns)
      other.active = false;
    if (other.active) least = std::min(least, other.virtual_time);
  }
  if (std::isfinite(least)) virtual_now_ = std::max(virtual_now_, least);
  asking.asked_ns = now_ns;
  if (asking.active) return;
  asking.active = true;
  asking.virtual_time = std::max(asking.virtual_time, virtual_now_);
}

void SharePacer::begin_demand(MemberId id) {
  const std::lock_guard lock(mutex_);
  Member& asking = member(id);
  ask(asking, clock_.now_ns());
  ++asking.num_demands;
}

void SharePacer::end_demand(MemberId id) {
  const std::lock_guard lock(mutex_);
  Member& asking = member(id);
  if (asking.num_demands == 0)
    throw Error(Error::Kind::kState,
                "SharePacer: member " + std::to_string(id) + " has no demand to end");
  --asking.num_demands;
  asking.asked_ns = clock_.now_ns();
}

bool SharePacer::may_start(Member& asking, std::int64_t now_ns) {
  if (asking.cap && !asking.cap->allowed(now_ns)) return false;
  double least = asking.virtual_time;
  for (auto& [id, other] : members_) {
    // A capped member without credit could not use what the others would leave to it.
    const bool waits_for_cap = other.cap && other.in_flight.empty() && !other.cap->allowed(now_ns);
    if (other.active && !waits_for_cap) least = std::min(least, other.virtual_time);
  }
  return (asking.virtual_time - least) * asking.share <= options_.burst;
}

bool SharePacer::allowed(MemberId id) {
  const std::lock_guard lock(mutex_);
  Member& asking = member(id);
  const std::int64_t now_ns = clock_.now_ns();
  ask(asking, now_ns);
  const bool may = may_start(asking, now_ns);
  if (!may) ++asking.num_refused;
  return may;
}

bool SharePacer::try_begin(MemberId id) {
  const std::lock_guard lock(mutex_);
  Member& asking = member(id);
  const std::int64_t now_ns = clock_.now_ns();
  ask(asking, now_ns);
  if (!may_start(asking, now_ns)) {
    ++asking.num_refused;
    return false;
  }
  asking.in_flight.push_back(asking.mean_cost);
  asking.virtual_time += asking.mean_cost / asking.share;
  if (asking.cap) asking.cap->charge(asking.mean_cost, now_ns);
  ++asking.num_started;
  return true;
}

void SharePacer::end(MemberId id, double amount) {
  check_amount(amount);
  const std::lock_guard lock(mutex_);
  Member& user = member(id);
  if (user.in_flight.empty())
    throw Error(Error::Kind::kState,
                "SharePacer: member " + std::to_string(id) + " has nothing in flight to end");
  const double charged_before = user.in_flight.front();
  user.in_flight.pop_front();
  user.mean_cost =
      user.mean_cost == 0.0 ? amount : user.mean_cost + kMeanWeight * (amount - user.mean_cost);
  use(user, amount, charged_before, clock_.now_ns());
}

void SharePacer::abandon(MemberId id) {
  const std::lock_guard lock(mutex_);
  Member& user = member(id);
  if (user.in_flight.empty())
    throw Error(Error::Kind::kState,
                "SharePacer: member " + std::to_string(id) + " has nothing in flight to abandon");
  const double charged_before = user.in_flight.back();
  user.in_flight.pop_back();
  --user.num_started;
  use(user, 0.0, charged_before, clock_.now_ns());
}

void SharePacer::charge(MemberId id, double amount) {
  check_amount(amount);
  const std::lock_guard lock(mutex_);
  Member& user = member(id);
  const std::int64_t now_ns = clock_.now_ns();
  ask(user, now_ns);
  use(user, amount, 0.0, now_ns);
}

void SharePacer::use(Member& user, double amount, double charged_before, std::int64_t now_ns) {
  user.virtual_time += (amount - charged_before) / user.share;
  if (user.cap) user.cap->charge(amount - charged_before, now_ns);
  roll_window(user, now_ns);
  user.used += amount;
  user.used_in_window += amount;
  user.asked_ns = std::max(user.asked_ns, now_ns);
}

void SharePacer::roll_window(Member& of, std::int64_t now_ns) const {
  const std::int64_t window = (now_ns - start_ns_) / options_.window_ns;
  if (window == of.window) return;
  of.last_window_used = window == of.window + 1 ? of.used_in_window : 0.0;
  of.used_in_window = 0.0;
  of.window = window;
}

std::int64_t SharePacer::retry_in_ns(MemberId id) {
  const std::lock_guard lock(mutex_);
  Member& asking = member(id);
  const std::int64_t now_ns = clock_.now_ns();
  if (asking.cap && !asking.cap->allowed(now_ns)) return asking.cap->ready_in_ns(now_ns);
  return std::max<std::int64_t>(1, options_.idle_after_ns / 16);
}

SharePacer::Stats SharePacer::stats(MemberId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(id);
  if (found == members_.end())
    throw Error(Error::Kind::kValue, "SharePacer: no member " + std::to_string(id));
  Member now = found->second;
  roll_window(now, clock_.now_ns());
  const double capacity = options_.capacity_per_ns * static_cast<double>(options_.window_ns);
  return {now.share,
          now.cap.has_value(),
          now.active,
          now.used,
          now.used_in_window,
          now.last_window_used / capacity,
          now.in_flight.size(),
          now.num_started,
          now.num_refused};
}

}  // namespace gpk::runtime
