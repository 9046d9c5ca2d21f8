// All tasks a scheduler knows, by id and by key. Internal to the scheduler; not thread safe.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/scheduler_record.h"

namespace gpk::runtime {

// Records do not move while they are in the table.
class TaskTable {
 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };
  using Records = std::unordered_map<TaskId, TaskRecord>;

 public:
  using Node = Records::node_type;  // a record that has left the table

  // Gives the task its id. The key is empty or not in the table.
  TaskRecord& insert(TaskSpec spec);
  [[nodiscard]] TaskRecord* find(TaskId id);
  [[nodiscard]] const TaskRecord* find(TaskId id) const;
  // kValue when the id is not, or no longer, known. `who` starts the message: "Scheduler: start".
  TaskRecord& at(TaskId id, std::string_view who);
  const TaskRecord& at(TaskId id, std::string_view who) const;
  [[nodiscard]] TaskId find_key(std::string_view key) const;  // kNoTask when there is none
  [[nodiscard]] bool was_issued(TaskId id) const noexcept { return id != kNoTask && id < next_id_; }

  // The record has ended and may be forgotten from now on.
  void retire(const TaskRecord& record) { ended_.push_back(record.id); }
  // Moves out the records that ended first until at most `max_ended` are left. One that somebody
  // waits for stays. The caller destroys them outside its lock: they hold the caller's objects.
  void trim(std::size_t max_ended, std::vector<Node>& forgotten);

  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard]] std::vector<TaskRecord*> in_order();  // by id
  [[nodiscard]] std::vector<const TaskRecord*> in_order() const;

 private:
  Records records_;
  std::unordered_map<std::string, TaskId, TextHash, std::equal_to<>> keys_;
  std::deque<TaskId> ended_;
  TaskId next_id_ = 1;
};

}  // namespace gpk::runtime
