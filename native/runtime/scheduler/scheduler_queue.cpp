#include "runtime/scheduler/scheduler_queue.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error.h"

namespace gpk::runtime {
namespace {

bool waits_for_memory(WaitReason reason) {
  return reason == WaitReason::kAccountMemory || reason == WaitReason::kDeviceMemory;
}

bool needs_nothing(const TaskRecord& task) {
  return task.spec.memory_bytes == 0 && task.bandwidth_ppb == 0;
}

// Whether `taker` got some of what `waiting` lacks.
bool competes(const TaskRecord& taker, const TaskRecord& waiting) {
  switch (waiting.wait_reason) {
    case WaitReason::kBandwidth: return taker.bandwidth_ppb > 0;
    case WaitReason::kDeviceMemory: return taker.spec.memory_bytes > 0;
    case WaitReason::kAccountMemory:
      return taker.spec.memory_bytes > 0 && taker.spec.account == waiting.spec.account;
    default: return false;
  }
}

}  // namespace

ReservationQueue::Lane& ReservationQueue::lane_for(const std::string& account) {
  const auto [place, is_new] = lanes_.try_emplace(account);
  if (is_new) place->second.account = place->first;
  return place->second;
}

TaskOrder& ReservationQueue::list_of(const TaskRecord& task) {
  switch (task.list) {
    case TaskList::kLight: return light_;
    case TaskList::kAdmitted: return admitted_[task.with_body ? 1 : 0];
    default: return task.lane->queued;
  }
}

// Most tasks go to the end of their list, and every one reuses its node.
void ReservationQueue::enter(TaskRecord& task, TaskList list) {
  task.list = list;
  TaskOrder& order = list_of(task);
  if (task.node.empty()) {
    task.place = order.emplace_hint(order.end(), task.order, &task);
    return;
  }
  task.node.key() = task.order;
  task.node.mapped() = &task;
  task.place = order.insert(order.end(), std::move(task.node));
}

void ReservationQueue::remove(TaskRecord& task) {
  task.node = list_of(task).extract(task.place);
  task.list = TaskList::kNone;
}

bool ReservationQueue::enqueue(TaskRecord& task) {
  task.lane = &lane_for(task.spec.account);
  ++task.lane->num_tasks;
  task.wait_reason = WaitReason::kTurn;
  ++num_queued_;
  if (needs_nothing(task)) {
    enter(task, TaskList::kLight);
    return true;
  }
  enter(task, TaskList::kLane);
  return task.place == task.lane->queued.begin() ||
         (task.bandwidth_ppb <= available_ppb() &&
          task.spec.memory_bytes <= ledger_.available_bytes(task.spec.account));
}

void ReservationQueue::begin_pass() {
  refused_.clear();
  keeps_memory_ = keeps_bandwidth_ = false;
  for (auto& [account, lane] : lanes_) {
    lane.next = lane.queued.begin();
    lane.num_refused = 0;
    lane.keeps_memory = false;
    lane.blocked_bytes = std::numeric_limits<std::size_t>::max();
  }
}

// The lane whose next task comes first; nullptr when the pass is over.
ReservationQueue::Lane* ReservationQueue::next_lane() {
  Lane* best = nullptr;
  for (auto& [account, lane] : lanes_) {
    if (lane.next == lane.queued.end() || lane.num_refused > limits_.backfill_depth) continue;
    if (best == nullptr || lane.next->first < best->next->first) best = &lane;
  }
  return best;
}

void ReservationQueue::admit(std::vector<Change>& changes) {
  admit_light(changes);
  // Revocation for one task may free more than it needs, enough for a task considered before it.
  // Holders are better ordered after each pass, so this converges quickly.
  constexpr int kMaxPassesInARow = 4;
  bool again = true;
  for (int i = 0; again && num_queued_ > 0 && i < kMaxPassesInARow; ++i) {
    const std::size_t num_before = changes.size();
    pass(changes);
    again = std::any_of(changes.begin() + static_cast<std::ptrdiff_t>(num_before), changes.end(),
                        [](const Change& c) { return c.kind == ChangeKind::kRevoked; });
  }
}

void ReservationQueue::pass(std::vector<Change>& changes) {
  begin_pass();
  while (Lane* lane = next_lane()) {
    TaskRecord& task = *lane->next->second;
    ++lane->next;  // an admitted task leaves the list; a revoked one re-enters later than this
    offer(task, *lane, changes);
  }
}

void ReservationQueue::admit_light(std::vector<Change>& changes) {
  while (!light_.empty()) {
    TaskRecord& task = *light_.begin()->second;
    try_reserve(task, *task.lane);
    remove(task);
    grant(task, changes);
  }
}

// A pass that visits no lane by itself.
void ReservationQueue::begin_single() {
  begin_pass();
  for (auto& [account, lane] : lanes_) lane.next = lane.queued.end();
}

void ReservationQueue::admit_one(TaskRecord& task, std::vector<Change>& changes) {
  begin_single();
  offer(task, *task.lane, changes);
}

void ReservationQueue::admit_if_free(TaskRecord& task, std::vector<Change>& changes) {
  begin_single();
  task.lane->num_refused = 1;  // treat it as not the first: only the first may revoke
  offer(task, *task.lane, changes);
}

void ReservationQueue::offer(TaskRecord& task, Lane& lane, std::vector<Change>& changes) {
  try {
    WaitReason obstacle = try_reserve(task, lane);
    // The account's limit, the device's and bandwidth can each be an obstacle once. Only the first
    // of a lane revokes: what it could not get, a later one cannot either.
    for (int i = 0; i < 3 && obstacle != WaitReason::kNone && lane.num_refused == 0; ++i) {
      if (!reclaim(task, obstacle, changes)) break;
      obstacle = try_reserve(task, lane);
    }
    if (obstacle != WaitReason::kNone) {
      refuse(task, lane, obstacle);
      return;
    }
  } catch (...) {  // a ledger exception fails this task, not the scheduler
    remove(task);
    --num_queued_;
    changes.push_back({&task, ChangeKind::kFailed, std::current_exception()});
    return;
  }
  remove(task);
  count_passes(task);
  grant(task, changes);
}

void ReservationQueue::grant(TaskRecord& task, std::vector<Change>& changes) {
  --num_queued_;
  enter(task, TaskList::kAdmitted);
  task.wait_reason = WaitReason::kStart;
  changes.push_back({&task, ChangeKind::kAdmitted});
}

// kNone: the task holds its reservation now.
WaitReason ReservationQueue::try_reserve(TaskRecord& task, Lane& lane) {
  const std::size_t bytes = task.spec.memory_bytes;
  if (bytes > 0 && (keeps_memory_ || lane.keeps_memory)) return WaitReason::kHeldBack;
  if (task.bandwidth_ppb > 0 && keeps_bandwidth_) return WaitReason::kHeldBack;
  if (task.bandwidth_ppb > available_ppb()) return WaitReason::kBandwidth;
  if (bytes > 0) {
    const WaitReason obstacle = reserve_memory(task, lane);
    if (obstacle != WaitReason::kNone) return obstacle;
  }
  task.holds_reservation = true;
  lane.reserved_bytes += bytes;
  ++lane.num_holding;
  reserved_bytes_ += bytes;
  reserved_ppb_ += task.bandwidth_ppb;
  return WaitReason::kNone;
}

WaitReason ReservationQueue::reserve_memory(const TaskRecord& task, Lane& lane) {
  const std::size_t bytes = task.spec.memory_bytes;
  // What may be held back, and from whom, depends on the exact reason.
  const bool exact = task.num_passed >= limits_.max_passes;
  if (bytes >= lane.blocked_bytes && !exact) return lane.blocked_reason;
  ReserveResult result = ReserveResult::kDeviceFull;
  try {
    result = ledger_.reserve(bytes, task.spec.account);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kMemory) throw;
  }
  if (result == ReserveResult::kGranted) return WaitReason::kNone;
  const WaitReason obstacle = result == ReserveResult::kAccountFull ? WaitReason::kAccountMemory
                                                                    : WaitReason::kDeviceMemory;
  if (bytes < lane.blocked_bytes) {
    lane.blocked_bytes = bytes;
    lane.blocked_reason = obstacle;
  }
  return obstacle;
}

// Revokes later-ordered reservations, the last first; false, with nothing revoked, when all of them
// would not suffice.
bool ReservationQueue::reclaim(const TaskRecord& task, WaitReason obstacle,
                               std::vector<Change>& changes) {
  if (obstacle == WaitReason::kHeldBack) return false;
  const bool memory = waits_for_memory(obstacle);
  const auto amount_of = [memory](const TaskRecord& holder) {
    return memory ? holder.spec.memory_bytes : static_cast<std::size_t>(holder.bandwidth_ppb);
  };
  const std::size_t need = amount_of(task);
  std::size_t have = memory ? ledger_.available_bytes(task.spec.account)
                            : static_cast<std::size_t>(available_ppb());
  std::vector<TaskRecord*> taken;
  auto last = std::array{admitted_[0].rbegin(), admitted_[1].rbegin()};
  while (have < need) {
    const bool second = last[0] == admitted_[0].rend() ||
                        (last[1] != admitted_[1].rend() && last[0]->first < last[1]->first);
    auto& it = last[second ? 1 : 0];
    if (it == admitted_[second ? 1 : 0].rend() || it->first < task.order) return false;
    TaskRecord& holder = *(it++)->second;
    const bool same = holder.spec.account == task.spec.account;
    if (amount_of(holder) == 0 || (obstacle == WaitReason::kAccountMemory && !same)) continue;
    have += amount_of(holder);
    taken.push_back(&holder);
  }
  if (taken.empty()) return false;
  for (TaskRecord* holder : taken) revoke(*holder, changes);
  for (auto& [account, lane] : lanes_) lane.blocked_bytes = std::numeric_limits<std::size_t>::max();
  return true;
}

void ReservationQueue::revoke(TaskRecord& task, std::vector<Change>& changes) {
  remove(task);
  Lane& lane = *task.lane;
  give_back(task, lane);
  task.wait_reason = WaitReason::kTurn;
  enter(task, TaskList::kLane);
  ++num_queued_;
  // The pass has not reached this position in any lane: all tasks here are later than the current
  // one.
  if (lane.next == lane.queued.end() || task.order < lane.next->first) lane.next = task.place;
  changes.push_back({&task, ChangeKind::kRevoked});
}

void ReservationQueue::refuse(TaskRecord& task, Lane& lane, WaitReason obstacle) {
  task.wait_reason = obstacle;
  ++lane.num_refused;
  if (obstacle == WaitReason::kHeldBack) return;
  refused_.push_back(&task);
  if (task.num_passed < limits_.max_passes || !own_tasks_can_free(task, lane, obstacle)) return;
  if (obstacle == WaitReason::kBandwidth) keeps_bandwidth_ = true;
  if (obstacle == WaitReason::kDeviceMemory) keeps_memory_ = true;
  if (obstacle == WaitReason::kAccountMemory) lane.keeps_memory = true;
}

// Memory held outside our tasks may never be released: holding back the rest for a task that waits
// for it would stall everyone.
bool ReservationQueue::own_tasks_can_free(const TaskRecord& task, const Lane& lane,
                                          WaitReason obstacle) const {
  if (obstacle == WaitReason::kBandwidth) return true;
  const std::size_t own =
      obstacle == WaitReason::kAccountMemory ? lane.reserved_bytes : reserved_bytes_;
  const std::size_t available = ledger_.available_bytes(task.spec.account);
  return task.spec.memory_bytes <= available || task.spec.memory_bytes - available <= own;
}

void ReservationQueue::count_passes(const TaskRecord& task) {
  for (TaskRecord* waiting : refused_) {
    if (waiting->num_passed < std::numeric_limits<std::uint32_t>::max() && competes(task, *waiting))
      ++waiting->num_passed;
  }
}

TaskRecord* ReservationQueue::first_admitted(bool with_body) const {
  const Order& order = admitted_[with_body ? 1 : 0];
  return order.empty() ? nullptr : order.begin()->second;
}

std::vector<TaskRecord*> ReservationQueue::waiting() const {
  std::vector<TaskRecord*> tasks;
  const auto add = [&tasks](const Order& order) {
    for (const auto& [key, task] : order) tasks.push_back(task);
  };
  for (const Order& order : admitted_) add(order);
  add(light_);
  for (const auto& [account, lane] : lanes_) add(lane.queued);
  std::sort(tasks.begin(), tasks.end(),
            [](const TaskRecord* a, const TaskRecord* b) { return a->order < b->order; });
  return tasks;
}

void ReservationQueue::start(TaskRecord& task) {
  remove(task);
  task.wait_reason = WaitReason::kNone;
}

void ReservationQueue::give_back(TaskRecord& task, Lane& lane) {
  const std::size_t bytes = task.spec.memory_bytes;
  if (bytes > 0) ledger_.release(bytes, task.spec.account);
  task.holds_reservation = false;
  lane.reserved_bytes -= bytes;
  --lane.num_holding;
  reserved_bytes_ -= bytes;
  reserved_ppb_ -= task.bandwidth_ppb;
}

void ReservationQueue::leave(TaskRecord& task) {
  task.wait_reason = WaitReason::kNone;
  if (task.lane == nullptr) return;
  if (task.list == TaskList::kLight || task.list == TaskList::kLane) --num_queued_;
  if (task.list != TaskList::kNone) remove(task);
  if (task.holds_reservation) give_back(task, *task.lane);
  Lane& lane = *std::exchange(task.lane, nullptr);
  if (--lane.num_tasks == 0 && lanes_.size() > kMaxIdleLanes)
    lanes_.erase(lanes_.find(lane.account));
}

std::vector<ReservationQueue::AccountUse> ReservationQueue::account_use() const {
  std::vector<AccountUse> uses;
  for (const auto& [account, lane] : lanes_)
    if (lane.num_tasks > 0)
      uses.push_back({account, lane.reserved_bytes, lane.num_holding, lane.queued.size()});
  return uses;
}

}  // namespace gpk::runtime
