// Allocation of memory and bandwidth: waiting tasks in order, per account, and those that hold a
// reservation and have not started. Internal to the scheduler; not thread safe (its lock is held).
//
// One pass of admit() offers every waiting task, in order over all accounts, what is free:
//  - A task that needs neither is admitted at once.
//  - A task that does not fit is passed by later ones (backfill), at most max_passes times; from
//    then on what it lacks is kept for it: device memory and bandwidth from all, account memory
//    from its account only. So large tasks do not starve, and a full account stops no other one.
//  - A task that does not fit takes back the reservations of later-ordered tasks that have not
//    started, when that is enough: being early in time gives no advantage over being first in
//    order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/memory_ledger.h"
#include "runtime/scheduler/scheduler_record.h"

namespace gpk::runtime {

// One account: its tasks that wait for memory or bandwidth, and the totals its others hold.
struct QueueLane {
  std::string_view account;
  TaskOrder queued;
  std::size_t num_tasks = 0;  // from queued to their end
  std::size_t reserved_bytes = 0;
  std::size_t num_holding = 0;
  // Valid during a pass:
  TaskOrder::iterator next;
  std::uint32_t num_refused = 0;
  bool keeps_memory = false;
  // The smallest request that was refused, and why: larger ones need not be tried.
  std::size_t blocked_bytes = 0;
  WaitReason blocked_reason = WaitReason::kNone;
};

class ReservationQueue {
 public:
  struct Limits {
    SharePpb total_bandwidth_ppb;
    std::uint32_t max_passes;
    std::uint32_t backfill_depth;  // tasks of one account that a pass considers past the first
  };
  enum class ChangeKind { kAdmitted, kRevoked, kFailed };
  struct Change {
    TaskRecord* task;
    ChangeKind kind;
    std::exception_ptr error = nullptr;  // of kFailed: the ledger's exception
  };
  struct AccountUse {
    std::string account;
    std::size_t reserved_bytes;
    std::size_t num_holding;
    std::size_t num_queued;
  };

  ReservationQueue(MemoryLedger& ledger, Limits limits) : ledger_(ledger), limits_(limits) {}

  // `task.order` is set. It waits until a pass admits it; false when a pass cannot change anything:
  // the task does not fit and is not the first of its account, which alone may revoke.
  bool enqueue(TaskRecord& task);
  // Offers what is free until nobody takes it; appends the changes, in order. A failed task must
  // still leave().
  void admit(std::vector<Change>& changes);
  // Admits only this task if it fits now; same changes. `task` waits in the queue.
  void admit_one(TaskRecord& task, std::vector<Change>& changes);
  // Same without revoking anything.
  void admit_if_free(TaskRecord& task, std::vector<Change>& changes);

  // The first admitted task; nullptr when there is none.
  [[nodiscard]] TaskRecord* first_admitted(bool with_body) const;
  // All that wait, in order: the admitted among the queued.
  [[nodiscard]] std::vector<TaskRecord*> waiting() const;

  // From admitted to running: it keeps its reservation.
  void start(TaskRecord& task);
  // Removes it from all lists, whatever its state, and releases its reservation. No-op when it is
  // in none.
  void leave(TaskRecord& task);

  [[nodiscard]] std::size_t num_queued() const noexcept { return num_queued_; }
  [[nodiscard]] std::size_t num_admitted(bool with_body) const noexcept {
    return admitted_[with_body ? 1 : 0].size();
  }
  [[nodiscard]] std::size_t reserved_bytes() const noexcept { return reserved_bytes_; }
  [[nodiscard]] SharePpb reserved_ppb() const noexcept { return reserved_ppb_; }
  [[nodiscard]] SharePpb available_ppb() const noexcept {
    return limits_.total_bandwidth_ppb - reserved_ppb_;
  }
  [[nodiscard]] std::vector<AccountUse> account_use() const;  // by name

 private:
  using Order = TaskOrder;
  using Lane = QueueLane;
  // Empty lanes that are kept for reuse.
  static constexpr std::size_t kMaxIdleLanes = 8;

  Lane& lane_for(const std::string& account);
  TaskOrder& list_of(const TaskRecord& task);
  void enter(TaskRecord& task, TaskList list);
  void remove(TaskRecord& task);
  void pass(std::vector<Change>& changes);
  void begin_single();
  void begin_pass();
  void admit_light(std::vector<Change>& changes);
  void grant(TaskRecord& task, std::vector<Change>& changes);
  Lane* next_lane();
  void offer(TaskRecord& task, Lane& lane, std::vector<Change>& changes);
  WaitReason try_reserve(TaskRecord& task, Lane& lane);
  WaitReason reserve_memory(const TaskRecord& task, Lane& lane);
  bool reclaim(const TaskRecord& task, WaitReason obstacle, std::vector<Change>& changes);
  void revoke(TaskRecord& task, std::vector<Change>& changes);
  void refuse(TaskRecord& task, Lane& lane, WaitReason obstacle);
  void count_passes(const TaskRecord& task);
  [[nodiscard]] bool own_tasks_can_free(const TaskRecord& task, const Lane& lane,
                                        WaitReason obstacle) const;
  void give_back(TaskRecord& task, Lane& lane);

  MemoryLedger& ledger_;
  const Limits limits_;
  std::map<std::string, Lane, std::less<>> lanes_;
  Order light_;        // queued and needing no resources
  Order admitted_[2];  // without and with a body
  std::size_t num_queued_ = 0;
  std::size_t reserved_bytes_ = 0;
  SharePpb reserved_ppb_ = 0;
  // Valid during a pass:
  std::vector<TaskRecord*> refused_;
  bool keeps_memory_ = false;
  bool keeps_bandwidth_ = false;
};

}  // namespace gpk::runtime
