// All tasks a scheduler knows, by id. Internal to the scheduler; not thread safe.
#pragma once

#include <cstddef>
#include <exception>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/scheduler/scheduler_record.h"

namespace gpk::runtime {

// Records have stable addresses while they are in the table.
class TaskTable {
 public:
  // Assigns the task its id.
  TaskRecord& insert(TaskSpec&& spec);
  [[nodiscard]] TaskRecord* find(TaskId id) noexcept {
    const auto found = records_.find(id);
    return found == records_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const TaskRecord* find(TaskId id) const noexcept {
    return const_cast<TaskTable*>(this)->find(id);
  }
  // kValue when the id is unknown or no longer kept. `who` starts the message: "Scheduler: start".
  TaskRecord& at(TaskId id, std::string_view who) {
    TaskRecord* record = find(id);
    if (record == nullptr) fail_unknown(id, who);
    return *record;
  }
  const TaskRecord& at(TaskId id, std::string_view who) const {
    return const_cast<TaskTable*>(this)->at(id, who);
  }

  // The record has ended and may be dropped from now on.
  void retire(TaskRecord& record) noexcept;
  // Drops the oldest ended records until at most `max_ended` are left. One with a waiter stays. The
  // caller destroys `exceptions` outside its lock, since they are user objects.
  void trim(std::size_t max_ended, std::vector<std::exception_ptr>& exceptions);

  [[nodiscard]] std::vector<TaskRecord*> in_order();  // by id
  [[nodiscard]] std::vector<const TaskRecord*> in_order() const;

 private:
  [[noreturn]] void fail_unknown(TaskId id, std::string_view who) const;

  std::unordered_map<TaskId, TaskRecord> records_;
  TaskRecord* first_ended_ = nullptr;
  TaskRecord* last_ended_ = nullptr;
  std::size_t num_ended_ = 0;
  TaskId next_id_ = 1;
};

}  // namespace gpk::runtime
