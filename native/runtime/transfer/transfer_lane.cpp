#include "runtime/transfer/transfer_lane.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace gpk::runtime {
namespace {

void* host_pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

}  // namespace

double LaneStats::gb_s() const noexcept {
  return busy_ns > 0 ? static_cast<double>(copied_bytes) / static_cast<double>(busy_ns) : 0.0;
}

// One thread at a time; also when an exception passes.
class TransferLane::DriverRole {
 public:
  explicit DriverRole(bool& driving) : driving_(driving) { driving_ = true; }
  ~DriverRole() { driving_ = false; }
  DriverRole(const DriverRole&) = delete;
  DriverRole& operator=(const DriverRole&) = delete;

 private:
  bool& driving_;
};

TransferLane::TransferLane(TransferType type, CopyDevice& device, const Clock& clock,
                           HostCopier& copier, SharePacer* pacer, Limits limits)
    : type_(type),
      device_(device),
      clock_(clock),
      copier_(copier),
      pacer_(pacer),
      limits_(limits),
      // One chunk more than may be in flight: what is lost where the ring wraps.
      ring_(device, limits.max_in_flight_bytes + limits.chunk_bytes) {}

void TransferLane::add(std::shared_ptr<Transfer> transfer) {
  const Key at = key(*transfer);
  if (transfer->after == 0) begin_demand(*transfer);
  waiting_.emplace(at, std::move(transfer));
  ++stats_.num_submitted;
  stats_.max_queue_depth = std::max(stats_.max_queue_depth, waiting_.size());
}

bool TransferLane::cancel(const std::shared_ptr<Transfer>& transfer) {
  if (transfer->cancelled) return true;
  if (transfer->done || !waiting_.contains(key(*transfer))) return false;
  transfer->cancelled = true;
  stop(*transfer, nullptr);
  finish_if_over(transfer);
  return true;
}

void TransferLane::cancel_all() {
  while (!waiting_.empty()) cancel(std::shared_ptr<Transfer>(waiting_.begin()->second));
}

void TransferLane::drive(Lock& lock, const std::function<bool()>& until) {
  while (!until()) {
    if (driving_) {
      changed_.wait(lock);
      continue;
    }
    Step moved = Step::kIdle;
    {
      const DriverRole role(driving_);
      moved = step(lock, true);
    }
    if (!to_call_back_.empty()) {
      if (!empty()) wake();  // others go on while this thread is in callbacks
      run_callbacks(lock);
    } else if (moved == Step::kIdle && !until()) {
      work_.wait(lock);
    }
  }
  if (!empty()) wake();  // another thread takes over
}

void TransferLane::wake() noexcept {
  changed_.notify_all();
  work_.notify_all();
}

bool TransferLane::pump(Lock& lock) {
  if (driving_) return false;
  bool moved = false;
  {
    const DriverRole role(driving_);
    while (step(lock, false) == Step::kMoved) moved = true;
  }
  if (!empty()) wake();
  run_callbacks(lock);
  return moved;
}

void TransferLane::run_callbacks(Lock& lock) {
  while (!to_call_back_.empty()) {
    const auto batch = std::exchange(to_call_back_, {});
    lock.unlock();
    for (const auto& transfer : batch) {
      try {
        transfer->on_done(transfer->result);
      } catch (...) {  // a callback has nobody to throw to
      }
      transfer->on_done = nullptr;
    }
    lock.lock();
  }
}

TransferLane::Step TransferLane::step(Lock& lock, bool may_block) {
  if (!in_flight_.empty() && head_done(lock, false)) {
    retire_head(lock);
    return Step::kMoved;
  }
  if (const auto next = next_to_issue()) {
    issue(lock, next);
    return Step::kMoved;
  }
  if (empty()) return Step::kIdle;
  if (!may_block) return Step::kBlocked;
  if (!in_flight_.empty()) {
    head_done(lock, true);
    retire_head(lock);
  } else {
    lock.unlock();
    device_.backoff();
    lock.lock();
  }
  return Step::kMoved;
}

// Whether a chunk of it may start as far as its event and its share go.
bool TransferLane::ready(Transfer& transfer) {
  if (transfer.after != 0) {
    try {
      if (!device_.poll(transfer.after)) return false;
    } catch (...) {
      transfer.error = std::current_exception();
    }
    device_.release(std::exchange(transfer.after, 0));
    if (transfer.error) return true;
    begin_demand(transfer);
  }
  if (pacer_ == nullptr || !transfer.member) return true;
  try {
    return pacer_->allowed(*transfer.member);
  } catch (const Error&) {  // the member has left: nothing to keep to
    transfer.demands = false;
    transfer.member.reset();
    return true;
  }
}

// A transfer asks for its share from when it could start until its last chunk has started, also
// while others are before it in line.
void TransferLane::begin_demand(Transfer& transfer) {
  if (pacer_ == nullptr || !transfer.member) return;
  try {
    pacer_->begin_demand(*transfer.member);
    transfer.demands = true;
  } catch (const Error&) {  // the member has left: nothing to keep to
    transfer.member.reset();
  }
}

void TransferLane::end_demand(Transfer& transfer) noexcept {
  if (!std::exchange(transfer.demands, false)) return;
  try {
    pacer_->end_demand(*transfer.member);
  } catch (const Error&) {  // the member has left
  }
}

std::shared_ptr<Transfer> TransferLane::next_to_issue() {
  for (const auto& [at, transfer] : waiting_) {
    if (!ready(*transfer)) continue;
    const std::size_t bytes =
        std::min(transfer->chunk_bytes, transfer->bytes - transfer->issued_bytes);
    if (transfer->error || bytes == 0) return transfer;
    const bool room =
        num_in_flight_ == 0 || stats_.in_flight_bytes + bytes <= limits_.max_in_flight_bytes;
    // A chunk that does not fit yet is waited for; letting smaller ones of less priority pass would
    // keep it waiting.
    return room && (!transfer->staged || ring_.fits(bytes)) ? transfer : nullptr;
  }
  return nullptr;
}

void TransferLane::issue(Lock& lock, const std::shared_ptr<Transfer>& transfer) {
  TransferOp& op = transfer->result;
  if (op.state == TransferState::kQueued) {
    op.state = TransferState::kInProgress;
    op.started_ns = clock_.now_ns();
    const std::int64_t wait_ns = op.started_ns - op.queued_ns;
    stats_.wait_ns += wait_ns;
    stats_.max_wait_ns = std::max(stats_.max_wait_ns, wait_ns);
  }
  if (transfer->error || transfer->bytes == 0) {
    stop(*transfer, transfer->error);
    finish_if_over(transfer);
    return;
  }
  in_flight_.push_back({transfer, transfer->issued_bytes, 0, nullptr, 0, nullptr});
  Chunk& chunk = in_flight_.back();
  chunk.bytes = std::min(transfer->chunk_bytes, transfer->bytes - transfer->issued_bytes);
  transfer->issued_bytes += chunk.bytes;
  ++transfer->num_chunks_in_flight;
  if (transfer->issued_bytes == transfer->bytes) leave_line(*transfer);
  count_in_flight(chunk.bytes, true);
  lock.unlock();
  start_copy(chunk);
  lock.lock();
  if (chunk.error) stop(*transfer, chunk.error);
}

void TransferLane::start_copy(Chunk& chunk) {
  const Transfer& transfer = *chunk.transfer;
  bool started = false;
  try {
    std::uint64_t src = transfer.src + chunk.offset;
    std::uint64_t dst = transfer.dst + chunk.offset;
    if (transfer.staged) {
      chunk.staging = ring_.acquire(chunk.bytes);
      if (type_ == TransferType::kH2D) copier_.copy(chunk.staging, host_pointer(src), chunk.bytes);
      (type_ == TransferType::kH2D ? src : dst) = address_of(chunk.staging);
    }
    device_.copy_async(type_, dst, src, chunk.bytes);
    started = true;
    chunk.event = device_.record(type_);
  } catch (...) {
    chunk.error = std::current_exception();
    if (started) synchronize_quietly();  // no event tells when the memory is free again
    return;
  }
  if (pacer_ == nullptr || !transfer.member) return;
  try {
    pacer_->charge(*transfer.member, static_cast<double>(chunk.bytes));
  } catch (const Error&) {  // the member has left
  }
}

bool TransferLane::head_done(Lock& lock, bool block) {
  Chunk& head = in_flight_.front();
  if (head.event == 0) return true;
  bool done = true;
  lock.unlock();
  try {
    if (block)
      device_.wait(head.event);
    else
      done = device_.poll(head.event);
  } catch (...) {
    head.error = std::current_exception();
    synchronize_quietly();
  }
  lock.lock();
  return done;
}

void TransferLane::retire_head(Lock& lock) {
  Chunk& head = in_flight_.front();
  const bool wanted = !head.error && !head.transfer->stopped;
  lock.unlock();
  if (head.event != 0) device_.release(head.event);
  if (wanted && head.staging != nullptr && type_ == TransferType::kD2H) copy_out(head);
  if (head.staging != nullptr) ring_.release_oldest();
  lock.lock();
  const Chunk chunk = std::move(in_flight_.front());
  in_flight_.pop_front();
  count_in_flight(chunk.bytes, false);
  Transfer& transfer = *chunk.transfer;
  --transfer.num_chunks_in_flight;
  if (chunk.error) {
    stop(transfer, chunk.error);
  } else {
    ++stats_.num_chunks;
    stats_.copied_bytes += chunk.bytes;
    if (chunk.staging != nullptr) stats_.staged_bytes += chunk.bytes;
  }
  finish_if_over(chunk.transfer);
}

void TransferLane::copy_out(Chunk& chunk) {
  try {
    copier_.copy(host_pointer(chunk.transfer->dst + chunk.offset), chunk.staging, chunk.bytes);
  } catch (...) {
    chunk.error = std::current_exception();
  }
}

void TransferLane::stop(Transfer& transfer, std::exception_ptr error) {
  transfer.stopped = true;
  if (!transfer.error) transfer.error = std::move(error);
  leave_line(transfer);
}

void TransferLane::leave_line(Transfer& transfer) {
  end_demand(transfer);
  waiting_.erase(key(transfer));
}

void TransferLane::finish_if_over(const std::shared_ptr<Transfer>& transfer) {
  if (transfer->num_chunks_in_flight > 0 ||
      (!transfer->stopped && transfer->issued_bytes < transfer->bytes))
    return;
  if (transfer->after != 0) device_.release(std::exchange(transfer->after, 0));
  TransferOp& op = transfer->result;
  op.finished_ns = clock_.now_ns();
  if (transfer->error) {
    transfer->cancelled = false;
    op.state = TransferState::kFailed;
    op.error = message_of(transfer->error);
    ++stats_.num_failed;
  } else if (transfer->cancelled) {
    op.state = TransferState::kCancelled;
    ++stats_.num_cancelled;
  } else {
    op.state = TransferState::kCompleted;
    ++stats_.num_completed;
  }
  transfer->done = true;
  if (transfer->on_done) to_call_back_.push_back(transfer);
  changed_.notify_all();
}

void TransferLane::count_in_flight(std::size_t bytes, bool started) {
  if (started) {
    if (num_in_flight_++ == 0) busy_since_ns_ = clock_.now_ns();
    stats_.in_flight_bytes += bytes;
    stats_.max_in_flight_bytes = std::max(stats_.max_in_flight_bytes, stats_.in_flight_bytes);
  } else {
    if (--num_in_flight_ == 0) stats_.busy_ns += clock_.now_ns() - busy_since_ns_;
    stats_.in_flight_bytes -= bytes;
  }
}

void TransferLane::synchronize_quietly() noexcept {
  try {
    device_.synchronize(type_);
  } catch (...) {  // the first error is the one to report
  }
}

LaneStats TransferLane::stats() const {
  LaneStats now = stats_;
  now.queue_depth = waiting_.size();
  if (num_in_flight_ > 0) now.busy_ns += clock_.now_ns() - busy_since_ns_;
  return now;
}

}  // namespace gpk::runtime
