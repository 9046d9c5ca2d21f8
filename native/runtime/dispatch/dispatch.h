// The life of each kernel launch: queued, launched, completed; with limits per stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/clock.h"
#include "runtime/device_events.h"
#include "runtime/dispatch/dispatch_launch_config.h"

namespace gpk::runtime {

enum class KernelState { kQueued, kLaunched, kCompleted, kFailed, kCancelled };
[[nodiscard]] const char* to_string(KernelState state) noexcept;

struct KernelLaunchRequest {
  std::uint64_t id = 0;
  std::uint64_t kernel_handle = 0;
  LaunchConfig config;
  std::vector<std::uint64_t> args;
  std::string task_id;  // empty: none
  int priority = 0;
  KernelState state = KernelState::kQueued;
  std::int64_t queued_ns = 0;
  std::int64_t launched_ns = -1;  // -1: not yet
  std::int64_t finished_ns = -1;  // -1: not yet
  std::string error;
  [[nodiscard]] bool is_live() const noexcept {
    return state == KernelState::kQueued || state == KernelState::kLaunched;
  }
};

// Launches on the device, injected. An event follows each launch on its stream.
class Launcher : public DeviceEvents {
 public:
  // Throws when the launch fails. Reads what queue() was given, not the state, which others may
  // change meanwhile. Does not call clear() of the dispatcher.
  virtual EventId launch(const KernelLaunchRequest& request) = 0;
};

struct DispatchStats {
  std::uint64_t total_queued = 0;    // ever
  std::uint64_t total_launched = 0;  // ever
  std::uint64_t num_completed = 0;
  std::uint64_t num_failed = 0;
  std::uint64_t num_cancelled = 0;
  std::uint64_t num_refused = 0;   // the queue was full
  std::size_t num_queued = 0;      // now
  std::size_t num_in_flight = 0;   // now
  std::size_t max_queued = 0;      // most at a time
  std::int64_t total_wait_ns = 0;  // from queued to launched
  std::int64_t total_exec_ns = 0;  // from launched to completed, as seen by the host
  [[nodiscard]] double avg_wait_ms() const noexcept;  // 0 when nothing was launched
  [[nodiscard]] double avg_exec_ms() const noexcept;  // 0 when nothing was completed
};

// Thread safe. State changes return false when the request is unknown or in another state.
//   Queued -> Launched -> Completed;  Queued or Launched -> Failed;  Queued -> Cancelled
class KernelDispatcher {
 public:
  // At most `max_in_flight` >= 1 launches run on a stream, at most `max_queued` >= 1 requests wait.
  // `clock` and `launcher` outlive the dispatcher. Without a launcher the caller launches:
  // get_ready, mark_launched, mark_completed.
  explicit KernelDispatcher(const Clock& clock, std::size_t max_in_flight = 4,
                            std::size_t max_queued = 65536, Launcher* launcher = nullptr);
  ~KernelDispatcher();
  KernelDispatcher(const KernelDispatcher&) = delete;
  KernelDispatcher& operator=(const KernelDispatcher&) = delete;

  // The new id, from 1. kState when the queue is full (back-pressure; with a launcher, pump() or
  // wait() makes room), kValue for a config that check() refuses.
  std::uint64_t queue(std::uint64_t kernel_handle, const LaunchConfig& config,
                      std::vector<std::uint64_t> args = {}, std::string task_id = "",
                      int priority = 0);
  // The same, or nothing when the queue is full.
  std::optional<std::uint64_t> try_queue(std::uint64_t kernel_handle, const LaunchConfig& config,
                                         std::vector<std::uint64_t> args = {},
                                         std::string task_id = "", int priority = 0);

  // Up to `max` requests that may launch now, of higher priority first, then first come; what is
  // launched already on a stream counts against its limit. Changes nothing.
  [[nodiscard]] std::vector<KernelLaunchRequest> get_ready(std::size_t max) const;
  bool mark_launched(std::uint64_t id);
  bool mark_completed(std::uint64_t id);
  bool mark_failed(std::uint64_t id, std::string error = "");
  bool cancel(std::uint64_t id);

  // Completes what is done and launches what may run; returns how many requests changed state. A
  // launch that throws fails its request and the others go on. kState without a launcher.
  std::size_t pump();
  // Pumps until the request is over. Throws what it failed with; kState when it was cancelled or
  // waits for requests that were launched by hand, kValue when it is unknown.
  void wait(std::uint64_t id);
  // Waits for everything that is queued or launched; failures stay with their requests.
  void drain();

  [[nodiscard]] std::optional<KernelLaunchRequest> get_request(std::uint64_t id) const;
  // In launch order.
  [[nodiscard]] std::vector<std::uint64_t> get_in_flight(std::uint64_t stream_id) const;
  [[nodiscard]] std::vector<std::uint64_t> get_requests_for_task(const std::string& task_id) const;
  [[nodiscard]] bool has_pending_work() const;
  [[nodiscard]] DispatchStats stats() const;
  [[nodiscard]] std::size_t max_in_flight() const noexcept { return max_in_flight_; }

  std::size_t gc();  // forgets finished requests; returns how many
  void clear();      // forgets all requests; launched kernels go on, unwatched

 private:
  // Shared by pump() and waiting threads; the last one releases it.
  class Event;
  struct Entry {
    KernelLaunchRequest request;
    std::shared_ptr<Event> event;
    bool launching = false;  // pump() is between launch and event
    std::exception_ptr error;
  };
  using Key = std::pair<std::int64_t, std::uint64_t>;  // (-priority, id)
  struct Stream {
    std::set<Key> queued;
    std::vector<std::uint64_t> in_flight;  // in launch order
  };
  using Lock = std::unique_lock<std::mutex>;

  static Key key(const KernelLaunchRequest& request) {
    return {-static_cast<std::int64_t>(request.priority), request.id};
  }
  Entry* find(std::uint64_t id);
  Entry* find(std::uint64_t id, KernelState state);
  std::optional<std::uint64_t> add(std::uint64_t kernel_handle, const LaunchConfig& config,
                                   std::vector<std::uint64_t> args, std::string task_id,
                                   int priority);
  [[nodiscard]] std::uint64_t next_ready() const;
  void start(Entry& entry);
  void finish(Entry& entry, KernelState state, std::string error, std::exception_ptr cause);
  bool fail_if_launched(std::uint64_t id, std::exception_ptr cause);
  std::size_t poll_completions(Lock& lock);
  std::size_t poll_stream(Lock& lock, const Stream& stream);
  std::size_t launch_ready(Lock& lock);
  std::pair<std::uint64_t, std::shared_ptr<Event>> event_to_wait_for(std::uint64_t id);
  void wait_for_event(std::uint64_t id, const std::shared_ptr<Event>& event);
  void need_launcher(const char* what) const;

  const Clock& clock_;
  const std::size_t max_in_flight_;
  const std::size_t max_queued_;
  Launcher* const launcher_;
  std::mutex pump_mutex_;  // before mutex_; one thread at a time launches, so streams keep order
  mutable std::mutex mutex_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Entry> entries_;
  std::map<std::uint64_t, Stream> streams_;  // those ever used
  std::vector<std::uint64_t> polled_;        // of pump(): ids of a stream, kept for its memory
  DispatchStats stats_;
};

}  // namespace gpk::runtime
