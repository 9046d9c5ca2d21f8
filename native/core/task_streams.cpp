#include "core/task_streams.h"

#include <algorithm>
#include <chrono>

#include "core/context.h"
#include "core/error.h"
#include "core/text.h"

namespace gpk {
namespace {

// How often events are asked: often at first, since most tasks are short.
constexpr std::chrono::microseconds kFirstPause{20};
constexpr std::chrono::microseconds kLongestPause{200};

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
    watcher_.detach();  // the last owner let go inside a callback
  } else {
    watcher_.join();
  }
}

std::shared_ptr<Stream> TaskStreams::acquire(StreamPriority priority) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || num_in_use_ < max_streams_ + num_lent_; });
  if (closed_) return nullptr;
  ++num_in_use_;
  auto& available = free_[static_cast<std::size_t>(priority)];
  if (!available.empty()) {
    std::shared_ptr<Stream> stream = std::move(available.back());
    available.pop_back();
    return stream;
  }
  lock.unlock();
  try {
    return Stream::create(device_, priority);
  } catch (...) {
    lock.lock();
    --num_in_use_;
    changed_.notify_all();
    throw;
  }
}

void TaskStreams::give_back(const std::shared_ptr<Stream>& stream, bool usable) {
  const std::lock_guard lock(mutex_);
  --num_in_use_;
  if (usable) free_[static_cast<std::size_t>(stream->priority())].push_back(stream);
  changed_.notify_all();
}

void TaskStreams::Loan::change(int count) {
  if (streams_ == nullptr) return;
  const std::lock_guard lock(streams_->mutex_);
  streams_->num_lent_ += static_cast<std::size_t>(count);
  streams_->changed_.notify_all();
}

void TaskStreams::finish(std::shared_ptr<Stream> stream, Done done) {
  std::shared_ptr<Event> event;
  std::exception_ptr error;
  try {
    if (device_.is_cuda()) {
      event = Event::create(device_, {.timing = false, .blocking_sync = false});
      event->record(*stream);
    }
  } catch (...) {
    error = std::current_exception();
    event = nullptr;
  }
  if (event == nullptr) {
    give_back(stream, error == nullptr);
    done(error);
    return;
  }
  const std::lock_guard lock(mutex_);
  work_.push_back({std::move(stream), std::move(event), std::move(done)});
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
  return num_in_use_;
}

bool TaskStreams::is_over(const Work& work, std::exception_ptr& error) noexcept {
  try {
    if (!work.event->query()) return false;
    work.stream->context()->check_report(work.stream->handle());
  } catch (...) {
    error = std::current_exception();
  }
  return true;
}

void TaskStreams::watch(const std::stop_token& stop) {
  auto pause = kFirstPause;
  while (!stop.stop_requested()) {
    std::list<Work> over;
    std::vector<std::exception_ptr> errors;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [this] { return !work_.empty(); });
      for (auto work = work_.begin(); work != work_.end();) {
        const auto next = std::next(work);
        std::exception_ptr error;
        if (is_over(*work, error)) {
          over.splice(over.end(), work_, work);
          errors.push_back(std::move(error));
        }
        work = next;
      }
    }
    pause = over.empty() ? std::min(2 * pause, kLongestPause) : kFirstPause;
    for (std::size_t i = 0; Work& work : over) {
      give_back(work.stream, errors[i] == nullptr);
      work.done(errors[i++]);
    }
    if (stop.stop_requested()) return;  // `this` may be gone
    if (over.empty()) std::this_thread::sleep_for(pause);
  }
}

}  // namespace gpk
