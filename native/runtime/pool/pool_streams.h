// The streams known to a memory pool: the order of their work, and its progress.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "runtime/pool/pool_device.h"

namespace gpk::runtime {

// Waits for an event on the host. The pool's version releases its lock meanwhile: recheck state
// afterwards.
using PoolWait = std::function<void(PoolDevice::Event)>;

// One stream from its first use to forget(). The driver may reuse the id for a later stream.
struct PoolStream {
  PoolStream(PoolDevice::Stream stream_id, std::uint64_t stream_index)
      : id(stream_id), index(stream_index) {}

  const PoolDevice::Stream id;
  const std::uint64_t index;  // from 1, in order of first use
  std::atomic<bool> dead{false};
  PoolDevice::Event ended = 0;  // of a dead stream: its last work; 0 when that is done
  std::size_t num_refs = 0;     // ranges, blocks and pending frees that refer to it

  // Uses of blocks up to done_tick have completed; those up to mark_tick have once `mark` has.
  std::uint64_t done_tick = 0;
  std::uint64_t mark_tick = 0;
  PoolDevice::Event mark = 0;
};

// Not thread safe: the pool's lock guards it.
class PoolStreams {
 public:
  explicit PoolStreams(PoolDevice& device) : device_(device) {}
  ~PoolStreams();
  PoolStreams(const PoolStreams&) = delete;
  PoolStreams& operator=(const PoolStreams&) = delete;

  PoolStream* get(PoolDevice::Stream id);
  // nullptr when it was never used.
  [[nodiscard]] PoolStream* find(PoolDevice::Stream id) const noexcept;
  // Including dead ones.
  [[nodiscard]] std::vector<PoolStream*> all() const;
  // The stream is about to be destroyed. If its last work cannot be recorded the device is lost,
  // and nothing runs on it.
  void forget(PoolStream* stream) noexcept;

  // All of the stream's work is done for good: memory it used is free for any stream.
  [[nodiscard]] static bool is_over(const PoolStream* stream) noexcept {
    return stream == nullptr ||
           (stream->dead.load(std::memory_order_relaxed) && stream->ended == 0);
  }

  // Orders work submitted to `later` from now on after all work of `earlier` so far.
  void order(PoolStream* earlier, PoolDevice::Stream later);
  // Blocks the host until all work so far is done.
  void settle(PoolStream* stream, const PoolWait& wait);
  // Polls the last work of dead streams; true when one has finished.
  bool poll_dead();

  // Records the stream's position at `tick`, unless an older mark is pending.
  void mark(PoolStream* stream, std::uint64_t tick);
  void poll_mark(PoolStream* stream);

  // A stream is kept until it is dead, done, and unreferenced.
  void add_ref(PoolStream* stream) noexcept {
    if (stream != nullptr) ++stream->num_refs;
  }
  void drop_ref(PoolStream* stream) noexcept;

 private:
  void erase_if_over(PoolStream* stream) noexcept;

  PoolDevice& device_;
  std::map<std::uint64_t, std::unique_ptr<PoolStream>> all_;  // by index
  std::map<PoolDevice::Stream, PoolStream*> live_;
  std::size_t num_ending_ = 0;
  std::uint64_t last_index_ = 0;
};

// Keeps a stream alive while the lock may be released.
class PoolStreamScope {
 public:
  PoolStreamScope(PoolStreams& streams, PoolStream* stream) : streams_(streams), stream_(stream) {
    streams_.add_ref(stream_);
  }
  ~PoolStreamScope() { streams_.drop_ref(stream_); }
  PoolStreamScope(const PoolStreamScope&) = delete;
  PoolStreamScope& operator=(const PoolStreamScope&) = delete;

 private:
  PoolStreams& streams_;
  PoolStream* stream_;
};

}  // namespace gpk::runtime
