#include "runtime/dispatch.h"

#include <algorithm>

#include "runtime/error.h"

namespace gpk::runtime {
namespace {

double mean_ms(std::int64_t total_ns, std::uint64_t count) {
  return count == 0 ? 0.0 : static_cast<double>(total_ns) / static_cast<double>(count) * 1e-6;
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown error";
  }
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
  queued_[config.stream_id].insert(key(request));
  ++stats_.total_queued;
  ++stats_.num_queued;
  stats_.max_queued = std::max(stats_.max_queued, stats_.num_queued);
  return id;
}

// Merges the heads of the streams that have room.
std::vector<std::uint64_t> KernelDispatcher::ready_ids(std::size_t max) const {
  struct Source {
    std::set<Key>::const_iterator next;
    std::set<Key>::const_iterator end;
    std::size_t room;
  };
  std::vector<Source> sources;
  for (const auto& [stream, keys] : queued_) {
    const auto running = in_flight_.find(stream);
    const std::size_t num_running = running == in_flight_.end() ? 0 : running->second.size();
    if (num_running < max_in_flight_)
      sources.push_back({keys.begin(), keys.end(), max_in_flight_ - num_running});
  }
  std::vector<std::uint64_t> ids;
  while (ids.size() < max && !sources.empty()) {
    const auto first =
        std::min_element(sources.begin(), sources.end(),
                         [](const Source& a, const Source& b) { return *a.next < *b.next; });
    ids.push_back(first->next->second);
    if (++first->next == first->end || --first->room == 0) sources.erase(first);
  }
  return ids;
}

std::vector<KernelLaunchRequest> KernelDispatcher::get_ready(std::size_t max) const {
  const std::lock_guard lock(mutex_);
  std::vector<KernelLaunchRequest> ready;
  for (const std::uint64_t id : ready_ids(max)) ready.push_back(entries_.at(id).request);
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
  const std::uint64_t stream = request.config.stream_id;
  in_flight_[stream].push_back(request.id);
  const auto keys = queued_.find(stream);
  keys->second.erase(key(request));
  if (keys->second.empty()) queued_.erase(keys);
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
  const std::uint64_t stream = request.config.stream_id;
  if (request.state == KernelState::kQueued) {
    const auto keys = queued_.find(stream);
    keys->second.erase(key(request));
    if (keys->second.empty()) queued_.erase(keys);
    --stats_.num_queued;
  } else {
    const auto ids = in_flight_.find(stream);
    std::erase(ids->second, request.id);
    if (ids->second.empty()) in_flight_.erase(ids);
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
  const auto launched = in_flight_;  // requests come and go while the lock is free
  std::size_t num_changed = 0;
  for (const auto& [stream, ids] : launched) {
    for (const std::uint64_t id : ids) {
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
  }
  return num_changed;
}

std::size_t KernelDispatcher::launch_ready(Lock& lock) {
  std::size_t num_changed = 0;
  for (auto ids = ready_ids(1); !ids.empty(); ids = ready_ids(1)) {
    const std::uint64_t id = ids.front();
    Entry* entry = find(id);
    start(*entry);
    entry->launching = true;
    const KernelLaunchRequest request = entry->request;
    std::shared_ptr<Event> event;
    std::exception_ptr cause;
    lock.unlock();
    try {
      event = std::make_shared<Event>(*launcher_, launcher_->launch(request));
    } catch (...) {
      cause = std::current_exception();
    }
    lock.lock();
    ++num_changed;
    entry = find(id);
    if (entry == nullptr) continue;  // cleared meanwhile
    entry->launching = false;
    if (cause)
      fail_if_launched(id, cause);
    else if (entry->request.state == KernelState::kLaunched)
      entry->event = std::move(event);
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
  const auto running = in_flight_.find(entry->request.config.stream_id);
  if (entry->launching || running == in_flight_.end()) return {0, nullptr};
  for (const std::uint64_t other : running->second) {
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
  const auto found = in_flight_.find(stream_id);
  if (found == in_flight_.end()) return {};
  return found->second;
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
  return std::erase_if(entries_, [](const auto& item) { return !item.second.request.is_live(); });
}

void KernelDispatcher::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  queued_.clear();
  in_flight_.clear();
  stats_ = {};
}

}  // namespace gpk::runtime
