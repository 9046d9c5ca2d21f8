// Memory freed while streams other than its own may still use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "runtime/pool/pool_block.h"

namespace gpk::runtime {

// Not thread safe: the pool's lock guards it.
class PoolPending {
 public:
  PoolPending(PoolDevice& device, PoolStreams& streams) : device_(device), streams_(streams) {}
  ~PoolPending();
  PoolPending(const PoolPending&) = delete;
  PoolPending& operator=(const PoolPending&) = delete;

  // Exactly one is set.
  struct Item {
    PoolBlock* block = nullptr;
    PoolArena* arena = nullptr;
  };
  // Records one event per stream. A stream whose event cannot be recorded now is retried later; the
  // item waits meanwhile. Without host memory for that, the host waits for the streams. False:
  // there is nothing to wait for.
  bool add(const Item& item, std::span<PoolStream* const> streams) noexcept;

  // Calls done(item), which must not throw, for every item whose streams are done. True when there
  // was one.
  template <class Done>
  bool poll(Done done) {
    bool any = false;
    for (auto it = entries_.begin(); it != entries_.end();) {
      const auto entry = it++;
      if (entry->waited_for || !finished(*entry)) continue;
      close(entry, done);
      any = true;
    }
    return any;
  }
  // Same for all current items, after waiting for them.
  template <class Done>
  bool drain(const PoolWait& wait, Done done) {
    bool any = false;
    const std::uint64_t last = last_number_;
    for (auto it = entries_.begin(); it != entries_.end() && it->number <= last;) {
      if (it->waited_for) {  // by another thread, which completes it
        ++it;
        continue;
      }
      wait_for(*it, wait);
      const auto entry = it++;
      close(entry, done);
      any = true;
    }
    return any;
  }

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool contains(const PoolBlock* block) const noexcept;

 private:
  struct Entry {
    Item item;
    std::uint64_t number = 0;
    bool waited_for = false;  // a thread waits for its events without the lock
    std::vector<PoolDevice::Event> events;
    std::vector<PoolStream*> unrecorded;
  };
  using Entries = std::list<Entry>;
  bool record(Entry& entry);
  bool finished(Entry& entry);
  void wait_for(Entry& entry, const PoolWait& wait);
  void clear(Entry& entry) noexcept;

  template <class Done>
  void close(Entries::iterator entry, Done done) {
    const Item item = entry->item;
    clear(*entry);
    entries_.erase(entry);
    done(item);
  }

  PoolDevice& device_;
  PoolStreams& streams_;
  Entries entries_;  // oldest first
  std::uint64_t last_number_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace gpk::runtime
