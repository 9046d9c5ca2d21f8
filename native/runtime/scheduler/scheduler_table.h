// All tasks a scheduler knows, by id and by key. Internal to the scheduler; not thread safe.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/scheduler/scheduler_record.h"

namespace gpk::runtime {

// Records do not move while they are in the table; those that have left are used again.
class TaskTable {
 public:
  TaskTable() : buckets_(kFirstBuckets) {}
  ~TaskTable();
  TaskTable(const TaskTable&) = delete;
  TaskTable& operator=(const TaskTable&) = delete;

  // Gives the task its id. The key is empty or not in the table.
  TaskRecord& insert(TaskSpec&& spec);
  [[nodiscard]] TaskRecord* find(TaskId id) noexcept {
    TaskRecord* record = buckets_[id & (buckets_.size() - 1)];
    while (record != nullptr && record->id != id) record = record->next_in_bucket;
    return record;
  }
  [[nodiscard]] const TaskRecord* find(TaskId id) const noexcept {
    return const_cast<TaskTable*>(this)->find(id);
  }
  // kValue when the id is not, or no longer, known. `who` starts the message: "Scheduler: start".
  TaskRecord& at(TaskId id, std::string_view who) {
    TaskRecord* record = find(id);
    if (record == nullptr) fail_unknown(id, who);
    return *record;
  }
  const TaskRecord& at(TaskId id, std::string_view who) const {
    return const_cast<TaskTable*>(this)->at(id, who);
  }
  [[nodiscard]] TaskId find_key(std::string_view key) const;  // kNoTask when there is none
  [[nodiscard]] bool was_issued(TaskId id) const noexcept { return id != kNoTask && id < next_id_; }

  // The record has ended and may be forgotten from now on.
  void retire(TaskRecord& record) noexcept;
  // Forgets the records that ended first until at most `max_ended` are left. One that somebody
  // waits for stays. The caller destroys `exceptions` outside its lock: they are its user's.
  void trim(std::size_t max_ended, std::vector<std::exception_ptr>& exceptions) {
    if (num_ended_ > max_ended) trim_ended(max_ended, exceptions);
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::vector<TaskRecord*> in_order();  // by id
  [[nodiscard]] std::vector<const TaskRecord*> in_order() const;

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };
  static constexpr std::size_t kFirstBuckets = 64;
  static constexpr std::size_t kMaxSpare = 256;

  [[noreturn]] void fail_unknown(TaskId id, std::string_view who) const;
  void trim_ended(std::size_t max_ended, std::vector<std::exception_ptr>& exceptions);
  void grow();
  void recycle(TaskRecord* record) noexcept;

  // Ids follow each other, so that their low bits spread them evenly.
  std::vector<TaskRecord*> buckets_;  // a power of two
  std::size_t size_ = 0;
  TaskRecord* first_ended_ = nullptr;
  TaskRecord* last_ended_ = nullptr;
  std::size_t num_ended_ = 0;
  TaskRecord* spare_ = nullptr;
  std::size_t num_spare_ = 0;
  std::unordered_map<std::string, TaskId, TextHash, std::equal_to<>> keys_;
  TaskId next_id_ = 1;
};

}  // namespace gpk::runtime
