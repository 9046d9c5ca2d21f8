#include "base/trace.h"

#include <algorithm>
#include <functional>
#include <ostream>

#include "base/error.h"
#include "base/trace_json.h"

namespace gpk::inline base {
namespace {

constexpr std::size_t kMaxNameBytes = 128;
constexpr const char* kFirstTrack = "GPU";

// Whole nanoseconds, as microseconds with three decimals.
void append_us(std::string& out, std::int64_t ns) {
  const bool negative = ns < 0;
  const std::uint64_t value =
      negative ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  const std::string decimals = std::to_string(1000 + value % 1000).substr(1);
  if (negative) out += '-';
  out += std::to_string(value / 1000) + "." + decimals;
}

void append_metadata(std::string& out, const char* what, TraceRecorder::TrackId track,
                     std::string_view name) {
  out += R"({"ph":"M","pid":1,"tid":)" + std::to_string(track) + R"(,"name":")" + what +
         R"(","args":{"name":)";
  append_json_string(out, name);
  out += "}}";
}

}  // namespace

const char* to_string(TraceCategory category) noexcept {
  switch (category) {
    case TraceCategory::kTask: return "task";
    case TraceCategory::kKernel: return "kernel";
    case TraceCategory::kCopy: return "copy";
    case TraceCategory::kEviction: return "eviction";
    case TraceCategory::kMemory: return "memory";
  }
  return "?";
}

TraceRecorder::TraceRecorder(const Clock& clock, Options options)
    : clock_(clock), options_(std::move(options)) {
  if (options_.max_events == 0)
    throw Error(Error::Kind::kValue, "TraceRecorder: max_events must be at least 1, got 0");
  tracks_.emplace(kFirstTrack, 1);
}

void TraceRecorder::clear() {
  const std::lock_guard lock(mutex_);
  events_.clear();
  events_.shrink_to_fit();
  oldest_ = 0;
  num_dropped_ = 0;
}

TraceRecorder::TrackId TraceRecorder::track(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = tracks_.find(name);
  if (found != tracks_.end()) return found->second;
  const auto id = static_cast<TrackId>(tracks_.size() + 1);
  tracks_.emplace(name, id);
  return id;
}

void TraceRecorder::add(Event event, std::string_view name) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    event.name = name.substr(0, kMaxNameBytes);
    if (events_.size() < options_.max_events) {
      events_.push_back(std::move(event));
      return;
    }
    events_[oldest_] = std::move(event);
    oldest_ = (oldest_ + 1) % events_.size();
  } catch (const std::bad_alloc&) {  // counted below
  }
  ++num_dropped_;
}

std::size_t TraceRecorder::num_events() const {
  const std::lock_guard lock(mutex_);
  return events_.size();
}

std::uint64_t TraceRecorder::num_dropped() const {
  const std::lock_guard lock(mutex_);
  return num_dropped_;
}

void TraceRecorder::append(std::string& out, const Event& event, std::int64_t zero_ns) {
  out += R"({"ph":")";
  out += event.phase;
  out += R"(","pid":1,"tid":)" + std::to_string(event.track) + R"(,"cat":")" +
         to_string(event.category) + R"(","name":)";
  append_json_string(out, event.name);
  out += R"(,"ts":)";
  append_us(out, event.start_ns - zero_ns);
  if (event.phase == 'X') {
    out += R"(,"dur":)";
    append_us(out, event.duration_ns);
  }
  if (event.phase == 'i') out += R"(,"s":"t")";
  out += R"(,"args":{)";
  bool first = true;
  for (const TraceArg& arg : event.args) {
    if (arg.key == nullptr) continue;
    if (!first) out += ',';
    first = false;
    append_json_string(out, arg.key);
    out += ':';
    append_json_number(out, arg.value);
  }
  out += "}}";
}

void TraceRecorder::write_chrome_trace(std::ostream& out) const {
  std::vector<Event> events;
  std::map<TrackId, std::string> names;
  {
    const std::lock_guard lock(mutex_);
    events.reserve(events_.size());
    for (std::size_t i = 0; i < events_.size(); ++i)
      events.push_back(events_[(oldest_ + i) % events_.size()]);
    for (const auto& [name, id] : tracks_) names.emplace(id, name);
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.start_ns < b.start_ns; });
  const std::int64_t zero_ns = events.empty() ? 0 : events.front().start_ns;
  std::string line = R"({"displayTimeUnit":"ns","traceEvents":[)";
  append_metadata(line, "process_name", 1, options_.process_name);
  for (const auto& [id, name] : names) {
    line += ",\n";
    append_metadata(line, "thread_name", id, name);
  }
  for (const Event& event : events) {
    line += ",\n";
    append(line, event, zero_ns);
    if (line.size() >= 65536) {
      out << line;
      line.clear();
    }
  }
  out << line << "]}\n";
}

}  // namespace gpk::inline base
