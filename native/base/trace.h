// What happened and when, for chrome://tracing and Perfetto.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace gpk::inline base {

enum class TraceCategory { kTask, kKernel, kCopy, kEviction, kMemory };
[[nodiscard]] const char* to_string(TraceCategory category) noexcept;  // "task", "kernel", ...

// A number beside an event. `key` is a literal or outlives the recorder.
struct TraceArg {
  const char* key = nullptr;  // nullptr: none
  double value = 0.0;
};

// A ring buffer of the newest events. Thread safe. While off, recording costs one relaxed load.
// Never throws: an event that cannot be allocated is dropped and counted.
class TraceRecorder {
 public:
  using TrackId = std::uint32_t;  // a row in the viewer; "thread" in the format
  struct Options {
    std::size_t max_events = std::size_t{1} << 18;
    std::string process_name = "PyGPUkit";
  };

  // kValue when max_events is 0. `clock` outlives the recorder. Starts off.
  TraceRecorder(const Clock& clock, Options options);
  explicit TraceRecorder(const Clock& clock) : TraceRecorder(clock, Options{}) {}

  void start() noexcept { enabled_.store(true, std::memory_order_relaxed); }
  void stop() noexcept { enabled_.store(false, std::memory_order_relaxed); }
  [[nodiscard]] bool enabled() const noexcept { return enabled_.load(std::memory_order_relaxed); }
  void clear();  // drops the events; tracks stay

  // The track of that name, created on first use; ids from 1 in order of first use. Track 1 is
  // "GPU".
  TrackId track(std::string_view name);

  // An event with a duration. Names are cut at 128 bytes.
  void span(TraceCategory category, std::string_view name, TrackId on, std::int64_t start_ns,
            std::int64_t duration_ns, TraceArg first = {}, TraceArg second = {}) noexcept {
    if (enabled()) add({'X', category, on, start_ns, duration_ns, {first, second}, {}}, name);
  }
  // A value over time, from `at_ns` until the next one of this name; 0 when it is not finite.
  void counter(std::string_view name, std::int64_t at_ns, double value) noexcept {
    if (enabled())
      add({'C', TraceCategory::kMemory, 1, at_ns, 0, {TraceArg{"value", value}, {}}, {}}, name);
  }
  // An event at one point in time.
  void instant(TraceCategory category, std::string_view name, TrackId on, std::int64_t at_ns,
               TraceArg first = {}, TraceArg second = {}) noexcept {
    if (enabled()) add({'i', category, on, at_ns, 0, {first, second}, {}}, name);
  }

  [[nodiscard]] std::int64_t now_ns() const noexcept { return clock_.now_ns(); }
  [[nodiscard]] std::size_t num_events() const;
  // Overwritten by newer events, or not recorded for lack of memory.
  [[nodiscard]] std::uint64_t num_dropped() const;

  // {"traceEvents": [...]}: names of the process and the tracks, then the events by start time.
  // Times are in microseconds since the earliest one.
  void write_chrome_trace(std::ostream& out) const;

 private:
  struct Event {
    char phase;
    TraceCategory category;
    TrackId track;
    std::int64_t start_ns;
    std::int64_t duration_ns;
    std::array<TraceArg, 2> args;
    std::string name;
  };
  void add(Event event, std::string_view name) noexcept;
  static void append(std::string& out, const Event& event, std::int64_t zero_ns);

  const Clock& clock_;
  const Options options_;
  std::atomic<bool> enabled_{false};
  mutable std::mutex mutex_;
  std::vector<Event> events_;  // a ring once full
  std::size_t oldest_ = 0;
  std::uint64_t num_dropped_ = 0;
  std::map<std::string, TrackId, std::less<>> tracks_;
};

// Records a span from construction to the end of the scope, if the recorder is on at construction.
class TraceScope {
 public:
  TraceScope(TraceRecorder& recorder, TraceCategory category, std::string_view name,
             TraceRecorder::TrackId track) noexcept
      : recorder_(recorder.enabled() ? &recorder : nullptr),
        category_(category),
        name_(name),
        track_(track),
        start_ns_(recorder_ == nullptr ? 0 : recorder.now_ns()) {}
  ~TraceScope() {
    if (recorder_ != nullptr)
      recorder_->span(category_, name_, track_, start_ns_, recorder_->now_ns() - start_ns_);
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  TraceRecorder* recorder_;
  TraceCategory category_;
  std::string_view name_;  // outlives the scope
  TraceRecorder::TrackId track_;
  std::int64_t start_ns_;
};

}  // namespace gpk::inline base
