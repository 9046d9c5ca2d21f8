#include "runtime/pool/pool_streams.h"

#include <limits>
#include <utility>

namespace gpk::runtime {
namespace {

constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

// Destroys the event on every exit.
class EventScope {
 public:
  EventScope(PoolDevice& device, PoolDevice::Event event) : device_(device), event_(event) {}
  ~EventScope() { device_.destroy_event(event_); }
  EventScope(const EventScope&) = delete;
  EventScope& operator=(const EventScope&) = delete;

 private:
  PoolDevice& device_;
  PoolDevice::Event event_;
};

}  // namespace

PoolStreams::~PoolStreams() {
  for (const auto& [index, stream] : all_) {
    if (stream->ended != 0) device_.destroy_event(stream->ended);
    if (stream->mark != 0) device_.destroy_event(stream->mark);
  }
}

PoolStream* PoolStreams::find(PoolDevice::Stream id) const noexcept {
  const auto found = live_.find(id);
  return found == live_.end() ? nullptr : found->second;
}

PoolStream* PoolStreams::get(PoolDevice::Stream id) {
  if (PoolStream* stream = find(id)) return stream;
  const std::uint64_t index = last_index_ + 1;
  const auto [place, fresh] = all_.emplace(index, std::make_unique<PoolStream>(id, index));
  try {
    live_.emplace(id, place->second.get());
  } catch (...) {
    all_.erase(place);
    throw;
  }
  last_index_ = index;
  return place->second.get();
}

std::vector<PoolStream*> PoolStreams::all() const {
  std::vector<PoolStream*> streams;
  for (const auto& [index, stream] : all_) streams.push_back(stream.get());
  return streams;
}

void PoolStreams::forget(PoolStream* stream) noexcept {
  live_.erase(stream->id);
  try {
    stream->ended = device_.record(stream->id);
    ++num_ending_;
  } catch (...) {  // the device is lost: no work is left
  }
  stream->dead.store(true);
  erase_if_over(stream);
}

void PoolStreams::order(PoolStream* earlier, PoolDevice::Stream later) {
  if (is_over(earlier)) return;
  if (earlier->dead.load()) return device_.stream_wait(later, earlier->ended);
  if (earlier->id == later) return;
  const PoolDevice::Event event = device_.record(earlier->id);
  const EventScope scope(device_, event);
  device_.stream_wait(later, event);
}

void PoolStreams::settle(PoolStream* stream, const PoolWait& wait) {
  if (is_over(stream)) return;
  if (stream->dead.load()) {
    device_.wait(stream->ended);  // shared by all waiters: it must not be destroyed meanwhile
    device_.destroy_event(std::exchange(stream->ended, 0));
    --num_ending_;
    erase_if_over(stream);
    return;
  }
  const PoolDevice::Event event = device_.record(stream->id);
  const EventScope scope(device_, event);
  wait(event);
}

bool PoolStreams::poll_dead() {
  bool changed = false;
  if (num_ending_ == 0) return changed;
  for (auto place = all_.begin(); place != all_.end();) {
    PoolStream* stream = place->second.get();
    ++place;  // the stream may be destroyed
    if (stream->ended == 0 || !device_.poll(stream->ended)) continue;
    device_.destroy_event(std::exchange(stream->ended, 0));
    --num_ending_;
    erase_if_over(stream);
    changed = true;
  }
  return changed;
}

void PoolStreams::mark(PoolStream* stream, std::uint64_t tick) {
  if (stream->dead.load() || stream->mark != 0 || stream->done_tick >= tick) return;
  stream->mark = device_.record(stream->id);
  stream->mark_tick = tick;
}

void PoolStreams::poll_mark(PoolStream* stream) {
  if (is_over(stream)) {
    stream->done_tick = kForever;
  } else if (stream->mark != 0 && device_.poll(stream->mark)) {
    device_.destroy_event(std::exchange(stream->mark, 0));
    stream->done_tick = stream->mark_tick;
  }
}

void PoolStreams::drop_ref(PoolStream* stream) noexcept {
  if (stream == nullptr) return;
  --stream->num_refs;
  erase_if_over(stream);
}

void PoolStreams::erase_if_over(PoolStream* stream) noexcept {
  if (!is_over(stream) || stream->num_refs != 0) return;
  if (stream->mark != 0) device_.destroy_event(stream->mark);
  all_.erase(stream->index);
}

}  // namespace gpk::runtime
