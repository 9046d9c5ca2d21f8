// A device for transfer tests: copies in simulated time, faults on demand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "expect.h"
#include "runtime/transfer/transfer_engine.h"

namespace gpk::runtime::transfer_test {

using Type = TransferType;
using State = TransferState;
using Bytes = std::vector<unsigned char>;

inline std::uint64_t address(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Copies take simulated time and move their bytes at the end of it, so that memory which is reused
// too early shows. "Device memory" is plain memory.
class FakeCopyDevice final : public CopyDevice {
 public:
  explicit FakeCopyDevice(ManualClock& clock) : clock_(clock) {}
  ~FakeCopyDevice() override {
    EXPECT_TRUE(events_.empty()) << "events leak";
    EXPECT_TRUE(pinned_.empty()) << "pinned memory leaks";
  }

  struct Copy {
    Type type;
    std::uint64_t dst;
    std::uint64_t src;
    std::size_t bytes;
    std::int64_t start_ns;
    std::int64_t end_ns;
  };

  void copy_async(Type type, std::uint64_t dst, std::uint64_t src, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    fail("copy");
    advance();
    Lane& lane = lanes_[static_cast<std::size_t>(type)];
    const std::int64_t start_ns = std::max(lane.free_ns, clock_.now_ns());
    const Copy copy{type, dst, src, bytes, start_ns, start_ns + kLatencyNs + cost_ns(bytes)};
    lane.free_ns = copy.end_ns;
    lane.pending.push_back(copy);
    log.push_back(copy);
    max_pending_bytes = std::max(max_pending_bytes, pending_bytes(lane));
  }
  EventId record(Type type) override {
    const std::lock_guard lock(mutex_);
    fail("record");
    return add_event(lanes_[static_cast<std::size_t>(type)].free_ns);
  }
  void synchronize(Type type) override {
    const std::lock_guard lock(mutex_);
    move_to(lanes_[static_cast<std::size_t>(type)].free_ns);
    fail("synchronize");
  }
  void backoff() noexcept override {
    const std::lock_guard lock(mutex_);
    ++num_backoffs;
    move_to(clock_.now_ns() + 10'000);
  }
  bool poll(EventId event) override {
    const std::lock_guard lock(mutex_);
    fail("poll");
    move_to(clock_.now_ns() + poll_ns);
    return events_.at(event) <= clock_.now_ns();
  }
  void wait(EventId event) override {
    const std::lock_guard lock(mutex_);
    fail("wait");
    move_to(events_.at(event));
  }
  void release(EventId event) noexcept override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(events_.erase(event), 1u);
  }
  bool is_pinned(const void* ptr, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    fail("is_pinned");
    for (const auto& [start, size] : outside_pinned_)
      if (address(ptr) >= start && address(ptr) + bytes <= start + size) return true;
    return false;
  }
  void* allocate_pinned(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    fail("allocate");
    void* ptr = ::operator new(bytes, std::align_val_t{4096});
    pinned_.insert(ptr);
    return ptr;
  }
  void free_pinned(void* ptr, std::size_t) noexcept override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(pinned_.erase(ptr), 1u);
    ::operator delete(ptr, std::align_val_t{4096});
  }

  // An event of some other stream that happens at `at_ns`.
  EventId outside_event(std::int64_t at_ns) {
    const std::lock_guard lock(mutex_);
    return add_event(at_ns);
  }
  void pin(const Bytes& memory) { outside_pinned_[address(memory.data())] = memory.size(); }
  // The `nth` call of that name from now on throws (1: the next one).
  void fail_call(const std::string& name, int nth) { failures_[name] = nth; }
  std::size_t num_pending(Type type) {
    const std::lock_guard lock(mutex_);
    return lanes_[static_cast<std::size_t>(type)].pending.size();
  }
  void forget_failures() { failures_.clear(); }
  void advance_to(std::int64_t at_ns) {
    const std::lock_guard lock(mutex_);
    move_to(at_ns);
  }
  static std::int64_t cost_ns(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }
  static constexpr std::int64_t kLatencyNs = 100;

  std::vector<Copy> log;
  std::size_t max_pending_bytes = 0;
  std::int64_t poll_ns = 0;  // for threads: polling passes time
  int num_backoffs = 0;

 private:
  struct Lane {
    std::deque<Copy> pending;
    std::int64_t free_ns = 0;
  };

  void fail(const std::string& name) {
    const auto found = failures_.find(name);
    if (found == failures_.end() || --found->second != 0) return;
    failures_.erase(found);
    throw DeviceError(name + " failed");
  }
  EventId add_event(std::int64_t at_ns) {
    events_[++last_event_] = at_ns;
    return last_event_;
  }
  void move_to(std::int64_t at_ns) {
    if (at_ns > clock_.now_ns()) clock_.set_ns(at_ns);
    advance();
  }
  void advance() {
    for (Lane& lane : lanes_)
      while (!lane.pending.empty() && lane.pending.front().end_ns <= clock_.now_ns()) {
        const Copy& copy = lane.pending.front();
        std::memcpy(reinterpret_cast<void*>(copy.dst), reinterpret_cast<const void*>(copy.src),
                    copy.bytes);
        lane.pending.pop_front();
      }
  }
  static std::size_t pending_bytes(const Lane& lane) {
    std::size_t sum = 0;
    for (const Copy& copy : lane.pending) sum += copy.bytes;
    return sum;
  }

  ManualClock& clock_;
  std::mutex mutex_;
  std::array<Lane, kNumTransferTypes> lanes_;
  EventId last_event_ = 0;
  std::map<EventId, std::int64_t> events_;
  std::set<void*> pinned_;
  std::map<std::uint64_t, std::size_t> outside_pinned_;
  std::map<std::string, int> failures_;
};

inline Bytes random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

class TransferEngineTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kChunk = 1024;
  static TransferEngine::Options options() {
    TransferEngine::Options result;
    result.chunk_bytes = kChunk;
    result.max_in_flight_bytes = 4 * kChunk;
    result.num_copy_threads = 2;
    result.background = false;
    return result;
  }
  static TransferEngine::SubmitOptions with_priority(int priority) {
    TransferEngine::SubmitOptions result;
    result.priority = priority;
    return result;
  }
  TransferFuture submit_h2d(TransferEngine& engine, Bytes& dst, const Bytes& src,
                            TransferEngine::SubmitOptions submit = {}) {
    return engine.submit(Type::kH2D, address(dst.data()), address(src.data()), src.size(),
                         std::move(submit));
  }

  ManualClock clock_;
  FakeCopyDevice device_{clock_};
};

}  // namespace gpk::runtime::transfer_test
