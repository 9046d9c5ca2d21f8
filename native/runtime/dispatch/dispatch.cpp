#include "runtime/dispatch/dispatch.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/text.h"

namespace gpk::runtime {
namespace {

double mean_ms(std::int64_t total_ns, std::uint64_t count) {
  return count == 0 ? 0.0 : static_cast<double>(total_ns) / static_cast<double>(count) * 1e-6;
}

}  // namespace

const char* to_string(KernelState state) noexcept {
  switch (state) {
    case KernelState::kQueued: return "Queued";
    case KernelState::kLaunched: return "Launched";
    case KernelState::kCompleted: return "Completed";
    case KernelState::kFailed: return "Failed";
    case KernelState::kCancelled: return "Cancelled";
  }
  return "?";
}

double DispatchStats::avg_wait_ms() const noexcept {
  return mean_ms(total_wait_ns, total_launched);
}
double DispatchStats::avg_exec_ms() const noexcept { return mean_ms(total_exec_ns, num_completed); }

class KernelDispatcher::Event {
 public:
  Event(Launcher& launcher, DeviceEvents::EventId id) : launcher_(launcher), id_(id) {}
  ~Event() { launcher_.release(id_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  bool poll() { return launcher_.poll(id_); }
  void wait() { launcher_.wait(id_); }

 private:
  Launcher& launcher_;
  const DeviceEvents::EventId id_;
};

KernelDispatcher::KernelDispatcher(const Clock& clock, std::size_t max_in_flight,
                                   std::size_t max_queued, Launcher* launcher)
    : clock_(clock), max_in_flight_(max_in_flight), max_queued_(max_queued), launcher_(launcher) {
  if (max_in_flight == 0 || max_queued == 0)
    throw Error(Error::Kind::kValue,
                "KernelDispatcher: max_in_flight and max_queued must be at least 1, got " +
                    std::to_string(max_in_flight) + " and " + std::to_string(max_queued));
}

KernelDispatcher::~KernelDispatcher() = default;

std::uint64_t KernelDispatcher::queue(std::uint64_t kernel_handle, const LaunchConfig& config,
                                      std::vector<std::uint64_t> args, std::string task_id,
                                      int priority) {
  const auto id = add(kernel_handle, config, std::move(args), std::move(task_id), priority);
  if (!id)
    throw Error(Error::Kind::kState, "KernelDispatcher: the queue is full (" +
                                         std::to_string(max_queued_) + " requests wait)");
  return *id;
}

std::optional<std::uint64_t> KernelDispatcher::try_queue(std::uint64_t kernel_handle,
                                                         const LaunchConfig& config,
                                                         std::vector<std::uint64_t> args,
                                                         std::string task_id, int priority) {
  return add(kernel_handle, config, std::move(args), std::move(task_id), priority);
}

std::optional<std::uint64_t> KernelDispatcher::add(std::uint64_t kernel_handle,
                                                   const LaunchConfig& config,
                                                   std::vector<std::uint64_t> args,
                                                   std::string task_id, int priority) {
  config.check();
  const std::lock_guard lock(mutex_);
  if (stats_.num_queued >= max_queued_) {
    ++stats_.num_refused;
    return std::nullopt;
  }
  const std::uint64_t id = next_id_++;
  KernelLaunchRequest& request = entries_[id].request;
  request.id = id;
  request.kernel_handle = kernel_handle;
  request.config = config;
  request.args = std::move(args);
  request.task_id = std::move(task_id);
  request.priority = priority;
  request.queued_ns = clock_.now_ns();
  streams_[config.stream_id].queued.insert(key(request));
  ++stats_.total_queued;
  ++stats_.num_queued;
  stats_.max_queued = std::max(stats_.max_queued, stats_.num_queued);
  return id;
}

// The first in line among the streams that have room; 0 when there is none.
std::uint64_t KernelDispatcher::next_ready() const {
  Key first{0, 0};
  for (const auto& [id, stream] : streams_) {
    if (stream.queued.empty() || stream.in_flight.size() >= max_in_flight_) continue;
    const Key& head = *stream.queued.begin();
    if (first.second == 0 || head < first) first = head;
  }
  return first.second;
}

std::vector<KernelLaunchRequest> KernelDispatcher::get_ready(std::size_t max) const {
  const std::lock_guard lock(mutex_);
  std::vector<Key> keys;  // as many of each stream as it has room for
  for (const auto& [id, stream] : streams_) {
    std::size_t room = max_in_flight_ - std::min(max_in_flight_, stream.in_flight.size());
    for (auto at = stream.queued.begin(); room > 0 && at != stream.queued.end(); ++at, --room)
      keys.push_back(*at);
  }
  std::sort(keys.begin(), keys.end());
  if (keys.size() > max) keys.resize(max);
  std::vector<KernelLaunchRequest> ready;
  ready.reserve(keys.size());
  for (const auto& [order, id] : keys) ready.push_back(entries_.at(id).request);
  return ready;
}

KernelDispatcher::Entry* KernelDispatcher::find(std::uint64_t id) {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

KernelDispatcher::Entry* KernelDispatcher::find(std::uint64_t id, KernelState state) {
  Entry* entry = find(id);
  return entry != nullptr && entry->request.state == state ? entry : nullptr;
}

void KernelDispatcher::start(Entry& entry) {
  KernelLaunchRequest& request = entry.request;
  Stream& stream = streams_.at(request.config.stream_id);
  stream.in_flight.push_back(request.id);
  stream.queued.erase(key(request));
  request.state = KernelState::kLaunched;
  request.launched_ns = clock_.now_ns();
  --stats_.num_queued;
  ++stats_.num_in_flight;
  ++stats_.total_launched;
  stats_.total_wait_ns += request.launched_ns - request.queued_ns;
}

void KernelDispatcher::finish(Entry& entry, KernelState state, std::string error,
                              std::exception_ptr cause) {
  KernelLaunchRequest& request = entry.request;
  Stream& stream = streams_.at(request.config.stream_id);
  if (request.state == KernelState::kQueued) {
    stream.queued.erase(key(request));
    --stats_.num_queued;
  } else {
    std::erase(stream.in_flight, request.id);
    --stats_.num_in_flight;
  }
  request.state = state;
  request.finished_ns = clock_.now_ns();
  request.error = std::move(error);
  entry.error = std::move(cause);
  entry.event.reset();
  if (state == KernelState::kCompleted) {
    ++stats_.num_completed;
    stats_.total_exec_ns += request.finished_ns - request.launched_ns;
  } else {
    ++(state == KernelState::kFailed ? stats_.num_failed : stats_.num_cancelled);
  }
}

bool KernelDispatcher::mark_launched(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  Entry* entry = find(id, KernelState::kQueued);
  if (entry == nullptr) return false;
  start(*entry);
  return true;
}

bool KernelDispatcher::mark_completed(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  Entry* entry = find(id, KernelState::kLaunched);
  if (entry == nullptr) return false;
  finish(*entry, KernelState::kCompleted, "", nullptr);
  return true;
}

bool KernelDispatcher::mark_failed(std::uint64_t id, std::string error) {
  const std::lock_guard lock(mutex_);
  Entry* entry = find(id);
  if (entry == nullptr || !entry->request.is_live()) return false;
  finish(*entry, KernelState::kFailed, std::move(error), nullptr);
  return true;
}

bool KernelDispatcher::cancel(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  Entry* entry = find(id, KernelState::kQueued);
  if (entry == nullptr) return false;
  finish(*entry, KernelState::kCancelled, "", nullptr);
  return true;
}

void KernelDispatcher::need_launcher(const char* what) const {
  if (launcher_ != nullptr) return;
  throw Error(Error::Kind::kState,
              std::string("KernelDispatcher: ") + what + " needs a launcher, and there is none");
}

std::size_t KernelDispatcher::pump() {
  need_launcher("pump");
  const std::lock_guard pumping(pump_mutex_);
  Lock lock(mutex_);
  const std::size_t num_completed = poll_completions(lock);
  return num_completed + launch_ready(lock);
}

bool KernelDispatcher::fail_if_launched(std::uint64_t id, std::exception_ptr cause) {
  Entry* entry = find(id, KernelState::kLaunched);
  if (entry == nullptr) return false;
  const std::string message = message_of(cause);
  finish(*entry, KernelState::kFailed, message, std::move(cause));
  return true;
}

std::size_t KernelDispatcher::poll_completions(Lock& lock) {
  std::size_t num_changed = 0;
  // Streams stay where they are: only clear() removes them, and it waits for pump().
  for (const auto& [id, stream] : streams_)
    if (!stream.in_flight.empty()) num_changed += poll_stream(lock, stream);
  return num_changed;
}

std::size_t KernelDispatcher::poll_stream(Lock& lock, const Stream& stream) {
  std::size_t num_changed = 0;
  polled_ = stream.in_flight;  // requests come and go while the lock is free
  for (const std::uint64_t id : polled_) {
    Entry* entry = find(id, KernelState::kLaunched);
    if (entry == nullptr || entry->event == nullptr) continue;
    const std::shared_ptr<Event> event = entry->event;
    bool done = false;
    std::exception_ptr cause;
    lock.unlock();
    try {
      done = event->poll();
    } catch (...) {
      cause = std::current_exception();
    }
    lock.lock();
    if (cause) {
      if (fail_if_launched(id, cause)) ++num_changed;
      continue;
    }
    if (!done) break;  // and so is what follows on this stream
    entry = find(id, KernelState::kLaunched);
    if (entry == nullptr) continue;
    finish(*entry, KernelState::kCompleted, "", nullptr);
    ++num_changed;
  }
  return num_changed;
}

std::size_t KernelDispatcher::launch_ready(Lock& lock) {
  std::size_t num_changed = 0;
  for (std::uint64_t id = next_ready(); id != 0; id = next_ready()) {
    Entry& entry = *find(id);
    start(entry);
    entry.launching = true;  // keeps the entry from gc()
    std::shared_ptr<Event> event;
    std::exception_ptr cause;
    lock.unlock();
    try {
      event = std::make_shared<Event>(*launcher_, launcher_->launch(entry.request));
    } catch (...) {
      cause = std::current_exception();
    }
    lock.lock();
    ++num_changed;
    entry.launching = false;
    if (cause)
      fail_if_launched(id, cause);
    else if (entry.request.state == KernelState::kLaunched)
      entry.event = std::move(event);
  }
  return num_changed;
}

// The request's own event, or that of the oldest launch on its stream: something that brings it
// closer. Id 0 when it is over or being launched by another thread.
std::pair<std::uint64_t, std::shared_ptr<KernelDispatcher::Event>>
KernelDispatcher::event_to_wait_for(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const Entry* entry = find(id);
  if (entry == nullptr || !entry->request.is_live()) return {0, nullptr};
  if (entry->event != nullptr) return {id, entry->event};
  const Stream& stream = streams_.at(entry->request.config.stream_id);
  if (entry->launching || stream.in_flight.empty()) return {0, nullptr};
  for (const std::uint64_t other : stream.in_flight) {
    const Entry* before = find(other);
    if (before->launching) return {0, nullptr};
    if (before->event != nullptr) return {other, before->event};
  }
  throw Error(Error::Kind::kState, "KernelDispatcher: request " + std::to_string(id) +
                                       " waits for requests that were launched by hand");
}

void KernelDispatcher::wait_for_event(std::uint64_t id, const std::shared_ptr<Event>& event) {
  try {
    event->wait();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    fail_if_launched(id, std::current_exception());
  }
}

void KernelDispatcher::wait(std::uint64_t id) {
  need_launcher("wait");
  while (true) {
    pump();
    {
      const std::lock_guard lock(mutex_);
      const Entry* entry = find(id);
      if (entry == nullptr)
        throw Error(Error::Kind::kValue, "KernelDispatcher: no request " + std::to_string(id));
      if (!entry->request.is_live()) {
        if (entry->error) std::rethrow_exception(entry->error);
        if (entry->request.state == KernelState::kCompleted) return;
        throw Error(Error::Kind::kState, "KernelDispatcher: request " + std::to_string(id) + ": " +
                                             to_string(entry->request.state) + " " +
                                             entry->request.error);
      }
    }
    const auto [waited_id, event] = event_to_wait_for(id);
    if (event != nullptr) wait_for_event(waited_id, event);
  }
}

void KernelDispatcher::drain() {
  need_launcher("drain");
  while (true) {
    pump();
    std::uint64_t oldest = 0;
    {
      const std::lock_guard lock(mutex_);
      if (stats_.num_queued + stats_.num_in_flight == 0) return;
      const auto live = std::find_if(entries_.begin(), entries_.end(), [](const auto& item) {
        return item.second.request.is_live();
      });
      oldest = live->first;
    }
    const auto [waited_id, event] = event_to_wait_for(oldest);
    if (event != nullptr) wait_for_event(waited_id, event);
  }
}

std::optional<KernelLaunchRequest> KernelDispatcher::get_request(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return std::nullopt;
  return found->second.request;
}

std::vector<std::uint64_t> KernelDispatcher::get_in_flight(std::uint64_t stream_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream_id);
  if (found == streams_.end()) return {};
  return found->second.in_flight;
}

std::vector<std::uint64_t> KernelDispatcher::get_requests_for_task(
    const std::string& task_id) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> ids;
  for (const auto& [id, entry] : entries_)
    if (entry.request.task_id == task_id) ids.push_back(id);
  return ids;
}

bool KernelDispatcher::has_pending_work() const {
  const std::lock_guard lock(mutex_);
  return stats_.num_queued + stats_.num_in_flight > 0;
}

DispatchStats KernelDispatcher::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::size_t KernelDispatcher::gc() {
  const std::lock_guard lock(mutex_);
  return std::erase_if(entries_, [](const auto& item) {
    return !item.second.request.is_live() && !item.second.launching;
  });
}

void KernelDispatcher::clear() {
  const std::lock_guard pumping(pump_mutex_);
  const std::lock_guard lock(mutex_);
  entries_.clear();
  streams_.clear();
  stats_ = {};
}

}  // namespace gpk::runtime
