#include "runtime/scheduler/scheduler_table.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/error.h"
#include "runtime/text.h"

namespace gpk::runtime {

TaskTable::~TaskTable() {
  const auto drop = [](TaskRecord* record) {
    while (record != nullptr) delete std::exchange(record, record->next_in_bucket);
  };
  for (TaskRecord* record : buckets_) drop(record);
  drop(spare_);
}

TaskRecord& TaskTable::insert(TaskSpec&& spec) {
  if (size_ == buckets_.size()) grow();
  const TaskId id = next_id_;
  if (!spec.key.empty()) keys_.emplace(spec.key, id);
  TaskRecord* record = spare_;
  if (record != nullptr) {
    spare_ = record->next_in_bucket;
    --num_spare_;
  } else {
    try {
      record = new TaskRecord;
    } catch (...) {
      if (!spec.key.empty()) keys_.erase(spec.key);
      throw;
    }
  }
  ++next_id_;
  ++size_;
  record->id = id;
  record->spec = std::move(spec);
  TaskRecord*& bucket = buckets_[id & (buckets_.size() - 1)];
  record->next_in_bucket = std::exchange(bucket, record);
  return *record;
}

void TaskTable::grow() {
  std::vector<TaskRecord*> wider(2 * buckets_.size());
  for (TaskRecord* record : buckets_) {
    while (record != nullptr) {
      TaskRecord* const next = record->next_in_bucket;
      TaskRecord*& bucket = wider[record->id & (wider.size() - 1)];
      record->next_in_bucket = std::exchange(bucket, record);
      record = next;
    }
  }
  buckets_ = std::move(wider);
}

void TaskTable::fail_unknown(TaskId id, std::string_view who) const {
  throw Error(Error::Kind::kValue,
              phrase(who, ": task ", id,
                     was_issued(id) ? " ended and is no longer kept" : " is not known"));
}

TaskId TaskTable::find_key(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? kNoTask : found->second;
}

void TaskTable::retire(TaskRecord& record) noexcept {
  record.next_ended = nullptr;
  (first_ended_ == nullptr ? first_ended_ : last_ended_->next_ended) = &record;
  last_ended_ = &record;
  ++num_ended_;
}

void TaskTable::trim_ended(std::size_t max_ended, std::vector<std::exception_ptr>& exceptions) {
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
    if (!record->spec.key.empty()) keys_.erase(record->spec.key);
    TaskRecord** link = &buckets_[record->id & (buckets_.size() - 1)];
    while (*link != record) link = &(*link)->next_in_bucket;
    *link = record->next_in_bucket;
    --size_;
    recycle(record);
  }
}

void TaskTable::recycle(TaskRecord* record) noexcept {
  if (num_spare_ >= kMaxSpare) {
    delete record;
    return;
  }
  // Built anew, so that nothing of the old task is left, except its place in a list.
  TaskOrder::node_type node = std::move(record->node);
  std::destroy_at(record);
  std::construct_at(record);
  record->node = std::move(node);
  record->next_in_bucket = std::exchange(spare_, record);
  ++num_spare_;
}

std::vector<TaskRecord*> TaskTable::in_order() {
  std::vector<TaskRecord*> tasks;
  tasks.reserve(size_);
  for (TaskRecord* record : buckets_)
    for (; record != nullptr; record = record->next_in_bucket) tasks.push_back(record);
  std::sort(tasks.begin(), tasks.end(),
            [](const TaskRecord* a, const TaskRecord* b) { return a->id < b->id; });
  return tasks;
}

std::vector<const TaskRecord*> TaskTable::in_order() const {
  const std::vector<TaskRecord*> tasks = const_cast<TaskTable*>(this)->in_order();
  return {tasks.begin(), tasks.end()};
}

}  // namespace gpk::runtime
