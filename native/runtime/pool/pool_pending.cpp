#include "runtime/pool/pool_pending.h"

#include <algorithm>

namespace gpk::runtime {

PoolPending::~PoolPending() {
  for (Entry& entry : entries_) clear(entry);
}

void PoolPending::clear(Entry& entry) noexcept {
  for (const PoolDevice::Event event : entry.events) device_.destroy_event(event);
  for (PoolStream* stream : entry.unrecorded) streams_.drop_ref(stream);
  entry.events.clear();
  entry.unrecorded.clear();
  if (entry.item.block != nullptr) bytes_ -= entry.item.block->bytes;
}

bool PoolPending::add(const Item& item, std::span<PoolStream* const> streams) noexcept {
  try {
    Entry entry;
    entry.item = item;
    entry.events.reserve(streams.size());
    for (PoolStream* stream : streams)
      if (!PoolStreams::is_over(stream)) entry.unrecorded.push_back(stream);
    if (entry.unrecorded.empty()) return false;
    entry.number = last_number_ + 1;
    entries_.push_back(std::move(entry));
  } catch (...) {  // no host memory to record it
    for (PoolStream* stream : streams) {
      try {
        streams_.settle(stream, [this](PoolDevice::Event event) { device_.wait(event); });
      } catch (...) {  // the device is lost: no work is left
      }
    }
    return false;
  }
  ++last_number_;
  for (PoolStream* stream : entries_.back().unrecorded) streams_.add_ref(stream);
  if (item.block != nullptr) bytes_ += item.block->bytes;
  try {
    record(entries_.back());
  } catch (...) {  // a later poll() retries
  }
  return true;
}

// An event recorded later covers more work, never less.
bool PoolPending::record(Entry& entry) {
  while (!entry.unrecorded.empty()) {
    PoolStream* stream = entry.unrecorded.back();
    if (!stream->dead.load())
      entry.events.push_back(device_.record(stream->id));
    else if (!PoolStreams::is_over(stream))
      return false;  // wait for the end of the stream instead
    entry.unrecorded.pop_back();
    streams_.drop_ref(stream);
  }
  return true;
}

bool PoolPending::finished(Entry& entry) {
  while (!entry.events.empty()) {
    if (!device_.poll(entry.events.back())) return false;
    device_.destroy_event(entry.events.back());
    entry.events.pop_back();
  }
  return record(entry) && entry.events.empty();
}

void PoolPending::wait_for(Entry& entry, const PoolWait& wait) {
  for (PoolStream* stream : entry.unrecorded)
    if (stream->dead.load()) streams_.settle(stream, wait);
  record(entry);
  entry.waited_for = true;  // nobody else touches it now
  try {
    for (; !entry.events.empty(); entry.events.pop_back()) {
      wait(entry.events.back());
      device_.destroy_event(entry.events.back());
    }
  } catch (...) {
    entry.waited_for = false;
    throw;
  }
}

bool PoolPending::contains(const PoolBlock* block) const noexcept {
  return std::any_of(entries_.begin(), entries_.end(),
                     [block](const Entry& entry) { return entry.item.block == block; });
}

}  // namespace gpk::runtime
