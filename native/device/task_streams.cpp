#include "device/task_streams.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "device/class_stream.h"
#include "device/device_sharing.h"

namespace gpk::device {
namespace {

// How often events are asked: often at first, since most tasks are short.
constexpr std::chrono::microseconds kFirstPause{20};
constexpr std::chrono::microseconds kLongestPause{200};

// Of the free streams: the classes first, then those without.
std::size_t index_of(std::optional<runtime::QosClass> qos) {
  return qos ? static_cast<std::size_t>(*qos) : 3;
}

}  // namespace

TaskStreams::TaskStreams(Device device, std::size_t max_streams)
    : device_(device), max_streams_(max_streams) {
  if (max_streams == 0) throw InvalidArgument("TaskStreams: max_streams is 0, expected at least 1");
}

TaskStreams::~TaskStreams() {
  close();
  if (!watcher_.joinable()) return;
  watcher_.request_stop();
  if (watcher_.get_id() == std::this_thread::get_id()) {
    watcher_.detach();  // the last owner was released inside a callback
  } else {
    watcher_.join();
  }
}

TaskStreams::Lease TaskStreams::acquire(std::optional<runtime::QosClass> qos) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || num_in_use_ < max_streams_ + num_lent_; });
  if (closed_) return {};
  ++num_in_use_;
  auto& available = free_[index_of(qos)];
  if (!available.empty()) {
    std::shared_ptr<Stream> stream = std::move(available.back());
    available.pop_back();
    return {std::move(stream), nullptr, qos};
  }
  lock.unlock();
  try {
    return {qos ? make_class_stream(DeviceSharing::get(device_), *qos)
                : Stream::create(device_, StreamPriority::kLow),
            nullptr, qos};
  } catch (...) {
    lock.lock();
    --num_in_use_;
    changed_.notify_all();
    throw;
  }
}

TaskStreams::Lease TaskStreams::acquire(std::shared_ptr<DevicePartition> partition) {
  auto stream = partition->share_stream();
  const std::lock_guard lock(mutex_);
  if (closed_) {
    partition->release_stream(stream);
    return {};
  }
  ++num_in_partitions_;
  return {std::move(stream), std::move(partition), std::nullopt};
}

void TaskStreams::give_back(const Work& work) {
  const Lease& lease = work.lease;
  if (lease.partition != nullptr) lease.partition->release_stream(lease.stream);
  const std::lock_guard lock(mutex_);
  if (lease.partition != nullptr) {
    --num_in_partitions_;
    return;
  }
  --num_in_use_;
  if (!work.lease_failed) free_[index_of(lease.qos)].push_back(lease.stream);
  changed_.notify_all();
}

void TaskStreams::Loan::change(int count) {
  if (streams_ == nullptr) return;
  const std::lock_guard lock(streams_->mutex_);
  streams_->num_lent_ += static_cast<std::size_t>(count);
  streams_->changed_.notify_all();
}

void TaskStreams::Work::fail(const std::shared_ptr<Stream>& stream) noexcept {
  if (error == nullptr) error = std::current_exception();
  if (stream == lease.stream) lease_failed = true;
}

void TaskStreams::Work::mark(const std::shared_ptr<Stream>& stream) {
  if (!stream->device().is_cuda()) return;
  try {
    if (stream->capturing()) return;  // recorded, not run
    auto event = Event::create(stream->device(), {.timing = false, .blocking_sync = false});
    event->record(*stream);
    marks.push_back({stream, std::move(event)});
  } catch (...) {
    fail(stream);
  }
}

bool TaskStreams::Work::is_over() noexcept {
  bool over = true;
  for (auto& [stream, event] : marks) {
    if (event == nullptr) continue;
    try {
      if (!event->query()) {
        over = false;
        continue;
      }
      stream->context()->check_report(stream->handle());
    } catch (...) {
      fail(stream);
    }
    event.reset();
  }
  return over && std::all_of(others.begin(), others.end(),
                             [](const auto& has_ended) { return has_ended(); });
}

void TaskStreams::finish(Lease lease, const TaskWork& submitted, Done done) {
  Work work;
  work.lease = std::move(lease);
  work.done = std::move(done);
  work.others = submitted.others();
  // Also where nothing was noted: others may have used its handle.
  work.mark(work.lease.stream);
  for (const auto& stream : submitted.streams())
    if (stream != work.lease.stream) work.mark(stream);
  if (work.marks.empty() && work.is_over()) {
    give_back(work);
    work.done(work.error);
    return;
  }
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  if (!watcher_.joinable())
    watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  changed_.notify_all();
}

void TaskStreams::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::size_t TaskStreams::num_in_use() const {
  const std::lock_guard lock(mutex_);
  return num_in_use_ + num_in_partitions_;
}

void TaskStreams::watch(const std::stop_token& stop) {
  auto pause = kFirstPause;
  while (!stop.stop_requested()) {
    std::list<Work> over;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [this] { return !work_.empty(); });
      for (auto work = work_.begin(); work != work_.end();) {
        const auto next = std::next(work);
        if (work->is_over()) over.splice(over.end(), work_, work);
        work = next;
      }
    }
    pause = over.empty() ? std::min(2 * pause, kLongestPause) : kFirstPause;
    for (Work& work : over) {
      give_back(work);
      work.done(work.error);
    }
    if (stop.stop_requested()) return;  // `this` may be gone
    if (over.empty()) std::this_thread::sleep_for(pause);
  }
}

}  // namespace gpk::device
