#include "runtime/scheduler_table.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"
#include "runtime/scheduler_text.h"

namespace gpk::runtime {

TaskRecord& TaskTable::insert(TaskSpec spec) {
  const TaskId id = next_id_;
  TaskRecord& record = records_.try_emplace(id).first->second;
  ++next_id_;
  record.id = id;
  record.spec = std::move(spec);
  if (!record.spec.key.empty()) keys_.emplace(record.spec.key, id);
  return record;
}

TaskRecord* TaskTable::find(TaskId id) {
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : &found->second;
}

const TaskRecord* TaskTable::find(TaskId id) const {
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : &found->second;
}

const TaskRecord& TaskTable::at(TaskId id, std::string_view who) const {
  const TaskRecord* record = find(id);
  if (record == nullptr)
    throw Error(Error::Kind::kValue,
                phrase(who, ": task ", id,
                       was_issued(id) ? " ended and is no longer kept" : " is not known"));
  return *record;
}

TaskRecord& TaskTable::at(TaskId id, std::string_view who) {
  return const_cast<TaskRecord&>(std::as_const(*this).at(id, who));
}

TaskId TaskTable::find_key(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? kNoTask : found->second;
}

void TaskTable::trim(std::size_t max_ended, std::vector<Node>& forgotten) {
  std::size_t num_awaited = 0;
  while (ended_.size() > max_ended && num_awaited < ended_.size()) {
    const TaskId id = ended_.front();
    ended_.pop_front();
    const auto found = records_.find(id);
    if (found->second.num_waiters > 0) {
      ended_.push_back(id);
      ++num_awaited;
      continue;
    }
    if (!found->second.spec.key.empty()) keys_.erase(found->second.spec.key);
    forgotten.push_back(records_.extract(found));
  }
}

std::vector<const TaskRecord*> TaskTable::in_order() const {
  std::vector<const TaskRecord*> tasks;
  tasks.reserve(records_.size());
  for (const auto& [id, record] : records_) tasks.push_back(&record);
  std::sort(tasks.begin(), tasks.end(),
            [](const TaskRecord* a, const TaskRecord* b) { return a->id < b->id; });
  return tasks;
}

std::vector<TaskRecord*> TaskTable::in_order() {
  std::vector<TaskRecord*> tasks;
  tasks.reserve(records_.size());
  for (auto& [id, record] : records_) tasks.push_back(&record);
  std::sort(tasks.begin(), tasks.end(),
            [](const TaskRecord* a, const TaskRecord* b) { return a->id < b->id; });
  return tasks;
}

}  // namespace gpk::runtime
