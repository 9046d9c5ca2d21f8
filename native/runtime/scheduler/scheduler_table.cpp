#include "runtime/scheduler/scheduler_table.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace gpk::runtime {

TaskRecord& TaskTable::insert(TaskSpec&& spec) {
  TaskRecord& record = records_.try_emplace(next_id_).first->second;
  record.id = next_id_++;
  record.spec = std::move(spec);
  return record;
}

void TaskTable::fail_unknown(TaskId id, std::string_view who) const {
  const bool was_issued = id != kNoTask && id < next_id_;
  throw Error(
      Error::Kind::kValue,
      cat(who, ": task ", id, was_issued ? " ended and is no longer kept" : " is not known"));
}

void TaskTable::retire(TaskRecord& record) noexcept {
  record.next_ended = nullptr;
  (first_ended_ == nullptr ? first_ended_ : last_ended_->next_ended) = &record;
  last_ended_ = &record;
  ++num_ended_;
}

void TaskTable::trim(std::size_t max_ended, std::vector<std::exception_ptr>& exceptions) {
  std::size_t num_awaited = 0;
  while (num_ended_ > max_ended && num_awaited < num_ended_) {
    TaskRecord* const record = first_ended_;
    first_ended_ = record->next_ended;
    --num_ended_;
    if (record->num_waiters > 0) {
      retire(*record);
      ++num_awaited;
      continue;
    }
    if (record->exception) exceptions.push_back(std::move(record->exception));
    records_.erase(record->id);
  }
}

std::vector<TaskRecord*> TaskTable::in_order() {
  std::vector<TaskRecord*> tasks;
  tasks.reserve(records_.size());
  for (auto& [id, record] : records_) tasks.push_back(&record);
  std::sort(tasks.begin(), tasks.end(),
            [](const TaskRecord* a, const TaskRecord* b) { return a->id < b->id; });
  return tasks;
}

std::vector<const TaskRecord*> TaskTable::in_order() const {
  const std::vector<TaskRecord*> tasks = const_cast<TaskTable*>(this)->in_order();
  return {tasks.begin(), tasks.end()};
}

}  // namespace gpk::runtime
