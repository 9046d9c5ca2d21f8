// Memory that was freed while other streams than its own may still use it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/pool_block.h"

namespace gpk::runtime {

// Not thread safe: the pool's lock guards it.
class PoolPending {
 public:
  PoolPending(PoolDevice& device, PoolStreams& streams) : device_(device), streams_(streams) {}
  ~PoolPending();
  PoolPending(const PoolPending&) = delete;
  PoolPending& operator=(const PoolPending&) = delete;

  // One of the two.
  struct Item {
    PoolBlock* block = nullptr;
    PoolArena* arena = nullptr;
  };
  // Records one event per stream. A stream whose event cannot be had now is tried again later; the
  // item waits meanwhile. Where there is not even host memory the host waits for the streams.
  // False: there is nothing to wait for.
  bool add(const Item& item, std::span<PoolStream* const> streams) noexcept;

  // Hands every item whose streams are done to done(item), which must not throw.
  template <class Done>
  bool poll(Done done) {
    return visit([this](Entry& entry) { return finished(entry); }, done);
  }
  // The same for all, after waiting for them.
  template <class Done>
  bool drain(Done done) {
    return visit([this](Entry& entry) { return wait(entry); }, done);
  }

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool contains(const PoolBlock* block) const noexcept;

 private:
  struct Entry {
    Item item;
    std::vector<PoolDevice::Event> events;
    std::vector<PoolStream*> unrecorded;
  };
  bool record(Entry& entry);
  bool finished(Entry& entry);
  bool wait(Entry& entry);
  void close(Entry& entry) noexcept;

  // Closes the entries for which is_done(entry) is true; true when there was one. Entries stay when
  // it throws.
  template <class IsDone, class Done>
  bool visit(IsDone is_done, Done done) {
    bool any = false;
    for (std::size_t i = 0; i < entries_.size();) {
      if (!is_done(entries_[i])) {
        ++i;
        continue;
      }
      const Item item = entries_[i].item;
      close(entries_[i]);
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
      done(item);
      any = true;
    }
    return any;
  }

  PoolDevice& device_;
  PoolStreams& streams_;
  std::vector<Entry> entries_;  // oldest first
  std::size_t bytes_ = 0;
};

}  // namespace gpk::runtime
