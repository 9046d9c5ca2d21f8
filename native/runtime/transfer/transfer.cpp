#include "runtime/transfer/transfer.h"

#include <algorithm>

#include "runtime/error.h"

namespace gpk::runtime {
namespace {

constexpr TransferType kTypes[] = {TransferType::kH2D, TransferType::kD2H, TransferType::kD2D};

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

double gb_per_s(std::uint64_t bytes, std::int64_t ns) {
  return ns > 0 ? static_cast<double>(bytes) / static_cast<double>(ns) : 0.0;
}

}  // namespace

TransferType transfer_type_from_name(std::string_view name) {
  for (const TransferType type : kTypes)
    if (name == to_string(type)) return type;
  throw Error(Error::Kind::kValue,
              "TransferQueue: type must be 'h2d', 'd2h' or 'd2d', got '" + std::string(name) + "'");
}

const char* to_string(TransferType type) noexcept {
  switch (type) {
    case TransferType::kH2D: return "h2d";
    case TransferType::kD2H: return "d2h";
    case TransferType::kD2D: return "d2d";
  }
  return "?";
}

const char* to_string(TransferState state) noexcept {
  switch (state) {
    case TransferState::kQueued: return "Queued";
    case TransferState::kInProgress: return "InProgress";
    case TransferState::kCompleted: return "Completed";
    case TransferState::kFailed: return "Failed";
    case TransferState::kCancelled: return "Cancelled";
  }
  return "?";
}

int transfer_stream(TransferType type) noexcept {
  switch (type) {
    case TransferType::kH2D: return 1;
    case TransferType::kD2H: return 2;
    case TransferType::kD2D: return 0;
  }
  return 0;
}

bool is_terminal(TransferState state) noexcept {
  return state != TransferState::kQueued && state != TransferState::kInProgress;
}

double TransferOp::wait_time_s() const noexcept {
  return started_ns < 0 ? 0.0 : seconds(started_ns - queued_ns);
}

double TransferOp::duration_s() const noexcept {
  return started_ns < 0 || finished_ns < 0 ? 0.0 : seconds(finished_ns - started_ns);
}

double TransferOp::bandwidth_gb_s() const noexcept {
  return state == TransferState::kCompleted ? gb_per_s(size_bytes, finished_ns - started_ns) : 0.0;
}

double TransferStats::Direction::bandwidth_gb_s() const noexcept {
  return gb_per_s(completed_bytes, transfer_ns);
}

TransferStats::Direction TransferStats::total() const noexcept {
  Direction sum;
  for (const Direction& part : by_type) {
    sum.num_enqueued += part.num_enqueued;
    sum.num_completed += part.num_completed;
    sum.completed_bytes += part.completed_bytes;
    sum.num_queued += part.num_queued;
    sum.num_in_progress += part.num_in_progress;
    sum.queued_bytes += part.queued_bytes;
    sum.transfer_ns += part.transfer_ns;
    sum.wait_ns += part.wait_ns;
  }
  return sum;
}

TransferQueue::TransferQueue(const Clock& clock, std::size_t max_concurrent)
    : clock_(clock), max_concurrent_(max_concurrent) {
  if (max_concurrent == 0)
    throw Error(Error::Kind::kValue, "TransferQueue: max_concurrent must be at least 1, got 0");
}

TransferId TransferQueue::enqueue(TransferType type, std::uint64_t src, std::uint64_t dst,
                                  std::size_t size_bytes, int priority) {
  TransferOp op;
  op.type = type;
  op.src = src;
  op.dst = dst;
  op.size_bytes = size_bytes;
  op.priority = priority;
  op.queued_ns = clock_.now_ns();
  const std::lock_guard lock(mutex_);
  const TransferId id = next_id_++;
  op.id = id;
  ops_.emplace(id, std::move(op));
  lane(type).queued.emplace(-static_cast<std::int64_t>(priority), id);
  TransferStats::Direction& stats = stats_.by_type[static_cast<std::size_t>(type)];
  ++stats.num_enqueued;
  ++stats.num_queued;
  stats.queued_bytes += size_bytes;
  return id;
}

std::vector<TransferOp> TransferQueue::get_ready(std::size_t max) {
  std::vector<TransferOp> ready;
  const std::lock_guard lock(mutex_);
  for (const TransferType type : kTypes) {
    Lane& from = lane(type);
    while (ready.size() < max && !from.queued.empty() &&
           from.in_progress.size() < max_concurrent_) {
      TransferOp& op = ops_.at(from.queued.begin()->second);
      begin(op);
      ready.push_back(op);
    }
  }
  return ready;
}

TransferOp* TransferQueue::find(TransferId id, TransferState state) {
  const auto found = ops_.find(id);
  return found != ops_.end() && found->second.state == state ? &found->second : nullptr;
}

void TransferQueue::begin(TransferOp& op) {
  Lane& to = lane(op.type);
  to.in_progress.insert(op.id);
  to.queued.erase({-static_cast<std::int64_t>(op.priority), op.id});
  op.state = TransferState::kInProgress;
  op.started_ns = clock_.now_ns();
  TransferStats::Direction& stats = stats_.by_type[static_cast<std::size_t>(op.type)];
  --stats.num_queued;
  ++stats.num_in_progress;
  stats.queued_bytes -= op.size_bytes;
  stats.wait_ns += op.started_ns - op.queued_ns;
}

bool TransferQueue::start(TransferId id) {
  const std::lock_guard lock(mutex_);
  TransferOp* op = find(id, TransferState::kQueued);
  if (op == nullptr) return false;
  begin(*op);
  return true;
}

bool TransferQueue::finish(TransferId id, TransferState state, std::string error) {
  const std::lock_guard lock(mutex_);
  TransferOp* op = find(id, TransferState::kInProgress);
  if (op == nullptr) return false;
  op->state = state;
  op->finished_ns = clock_.now_ns();
  op->error = std::move(error);
  lane(op->type).in_progress.erase(id);
  TransferStats::Direction& stats = stats_.by_type[static_cast<std::size_t>(op->type)];
  --stats.num_in_progress;
  if (state == TransferState::kCompleted) {
    ++stats.num_completed;
    stats.completed_bytes += op->size_bytes;
    stats.transfer_ns += op->finished_ns - op->started_ns;
  } else {
    ++(state == TransferState::kFailed ? stats_.num_failed : stats_.num_cancelled);
  }
  return true;
}

bool TransferQueue::complete(TransferId id) { return finish(id, TransferState::kCompleted, ""); }

bool TransferQueue::fail(TransferId id, std::string error) {
  return finish(id, TransferState::kFailed, std::move(error));
}

bool TransferQueue::abort(TransferId id) { return finish(id, TransferState::kCancelled, ""); }

bool TransferQueue::cancel(TransferId id) {
  const std::lock_guard lock(mutex_);
  TransferOp* op = find(id, TransferState::kQueued);
  if (op == nullptr) return false;
  lane(op->type).queued.erase({-static_cast<std::int64_t>(op->priority), id});
  op->state = TransferState::kCancelled;
  op->finished_ns = clock_.now_ns();
  TransferStats::Direction& stats = stats_.by_type[static_cast<std::size_t>(op->type)];
  --stats.num_queued;
  stats.queued_bytes -= op->size_bytes;
  ++stats_.num_cancelled;
  return true;
}

std::optional<TransferOp> TransferQueue::get(TransferId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = ops_.find(id);
  if (found == ops_.end()) return std::nullopt;
  return found->second;
}

std::vector<TransferId> TransferQueue::in_progress(int stream) const {
  const std::lock_guard lock(mutex_);
  for (const TransferType type : kTypes) {
    if (transfer_stream(type) != stream) continue;
    const auto& ids = lanes_[static_cast<std::size_t>(type)].in_progress;
    return {ids.begin(), ids.end()};
  }
  throw Error(
      Error::Kind::kValue,
      "TransferQueue: stream must be 0 (d2d), 1 (h2d) or 2 (d2h), got " + std::to_string(stream));
}

bool TransferQueue::has_pending_work() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& one) {
    return !one.queued.empty() || !one.in_progress.empty();
  });
}

TransferStats TransferQueue::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::optional<TransferOp> TransferQueue::take(TransferId id) {
  const std::lock_guard lock(mutex_);
  const auto found = ops_.find(id);
  if (found == ops_.end() || !is_terminal(found->second.state)) return std::nullopt;
  std::optional<TransferOp> op(std::move(found->second));
  ops_.erase(found);
  return op;
}

std::size_t TransferQueue::gc() {
  const std::lock_guard lock(mutex_);
  return std::erase_if(ops_, [](const auto& item) { return is_terminal(item.second.state); });
}

void TransferQueue::clear() {
  const std::lock_guard lock(mutex_);
  ops_.clear();
  lanes_ = {};
  stats_ = {};
}

}  // namespace gpk::runtime
