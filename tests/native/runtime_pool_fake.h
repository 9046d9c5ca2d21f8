// A device for pool tests: memory is host bytes reached through its own page table, streams are
// queues that move only when they are told to, and every misuse is noted.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/pool/pool_device.h"

namespace gpk::runtime::fake {

class PoolFake final : public PoolDevice {
 public:
  explicit PoolFake(std::size_t granularity = 4096, bool maps = true)
      : granularity_(granularity), can_map_(maps) {}

  // What the tests set and see.
  std::size_t memory_bytes = static_cast<std::size_t>(-1);  // physical memory there is
  std::size_t quota_bytes = 0;                              // noted when passed, 0: none
  std::size_t max_host_bytes = static_cast<std::size_t>(-1);
  bool fast_streams = false;  // work is done when submitted
  bool has_bytes = true;      // false: memory is only counted
  // The n-th fallible call from now on fails, 0: none. `fail_throws`: by exception where the call
  // could also say that there is no memory.
  std::size_t fail_in = 0;
  bool fail_throws = true;
  std::function<void()> on_wait;  // called once, by the next wait() before it waits
  std::size_t num_fallible = 0;
  std::size_t num_creates = 0;
  std::size_t num_maps = 0;
  std::size_t num_waits = 0;
  std::size_t num_stream_waits = 0;
  std::size_t num_records = 0;

  [[nodiscard]] std::size_t physical_bytes() const { return physical_; }
  [[nodiscard]] std::size_t peak_physical_bytes() const { return peak_; }
  [[nodiscard]] std::size_t host_bytes() const { return host_; }
  [[nodiscard]] std::size_t num_events() const { return events_.size(); }
  [[nodiscard]] bool clean() const {
    return handles_.empty() && mapped_.empty() && regions_.empty() && plain_.empty() &&
           events_.empty() && hosts_.empty();
  }
  std::vector<std::string> errors;

  struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

  // Work of a test. It touches memory through read() and write() when it runs.
  void launch(Stream stream, std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queues_[stream].push_back({std::move(work), 0, 0});
    if (fast_streams) run(stream);
  }
  // Runs one piece of work; false when there is none, or when it waits for another stream.
  bool step(Stream stream) {
    const std::lock_guard lock(mutex_);
    auto& queue = queues_[stream];
    if (queue.empty()) return false;
    const Work work = queue.front();
    if (work.waits_for != 0 && !is_done(work.waits_for)) return false;
    queue.pop_front();
    if (work.call) work.call();
    if (work.marks != 0 && events_.count(work.marks) != 0) events_[work.marks].done = true;
    if (work.marks != 0) done_.insert_or_assign(work.marks, true);
    return true;
  }
  // All of it, and what it waits for.
  void run(Stream stream) {
    const std::lock_guard lock(mutex_);
    auto& queue = queues_[stream];
    while (!queue.empty()) {
      if (queue.front().waits_for != 0) run_until(queue.front().waits_for);
      step(stream);
    }
  }
  void run_all() {
    const std::lock_guard lock(mutex_);
    std::vector<Stream> streams;
    for (const auto& [stream, queue] : queues_) streams.push_back(stream);
    for (const Stream stream : streams) run(stream);
  }
  [[nodiscard]] std::size_t queued(Stream stream) { return queues_[stream].size(); }

  void fill(Address address, std::size_t bytes, std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    sample(address, bytes, [&](Address at, std::byte* byte) { *byte = pattern(at, seed); });
  }
  [[nodiscard]] bool holds(Address address, std::size_t bytes, std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    bool same = true;
    sample(address, bytes,
           [&](Address at, const std::byte* byte) { same = same && *byte == pattern(at, seed); });
    return same;
  }
  void expect(Address address, std::size_t bytes, std::uint64_t seed) {
    if (!holds(address, bytes, seed)) note("wrong bytes at " + std::to_string(address));
  }
  [[nodiscard]] bool is_mapped(Address address) {
    const std::lock_guard lock(mutex_);
    return find(address) != nullptr;
  }

  [[nodiscard]] bool can_map() const noexcept override { return can_map_; }
  [[nodiscard]] std::size_t granularity_bytes() const noexcept override { return granularity_; }
  [[nodiscard]] std::size_t free_bytes() noexcept override { return memory_bytes - physical_; }

  Address reserve(std::size_t bytes, std::size_t alignment) override {
    const std::lock_guard lock(mutex_);
    if (fails("reserve")) return 0;
    next_address_ = (next_address_ + alignment - 1) / alignment * alignment;
    const Address address = next_address_;
    next_address_ += bytes + granularity_;  // a gap: nothing may run over the end
    regions_[address] = bytes;
    return address;
  }
  void release(Address address, std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(address);
    if (found == regions_.end() || found->second != bytes) return note("release of no region");
    const auto inside = mapped_.lower_bound(address);
    if (inside != mapped_.end() && inside->first < address + bytes) note("release while mapped");
    regions_.erase(found);
  }
  Handle create(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (fails("create") || bytes > memory_bytes - physical_) return 0;
    if (bytes % granularity_ != 0) note("create of half a granule");
    handles_[++last_id_] = {bytes, std::vector<std::byte>(has_bytes ? bytes : 0), false};
    ++num_creates;
    hold(bytes);
    return last_id_;
  }
  void destroy(Handle handle) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto found = handles_.find(handle);
    if (found == handles_.end()) return note("destroy of no handle");
    if (found->second.mapped) note("destroy while mapped");
    physical_ -= found->second.bytes;
    handles_.erase(found);
  }
  bool map(Address address, std::span<const Handle> handles, std::size_t chunk) override {
    const std::lock_guard lock(mutex_);
    if (fails("map")) return false;
    chunk_ = chunk;
    ++num_maps;
    for (const Handle handle : handles) {
      if (handles_.count(handle) == 0) note("map of no handle");
      if (mapped_.count(address) != 0) note("map over a mapping");
      Chunk& piece = handles_[handle];
      if (std::exchange(piece.mapped, true)) note("map of a mapped handle");
      if (piece.bytes != chunk) note("map of a chunk of another size");
      const auto region = regions_.upper_bound(address);
      if (region == regions_.begin())
        note("map outside");
      else if (const auto& [start, bytes] = *std::prev(region); address + chunk > start + bytes)
        note("map outside");
      std::fill(piece.data.begin(), piece.data.end(), std::byte{0xEE});
      mapped_[address] = handle;
      address += chunk;
    }
    return true;
  }
  void unmap(Address address, std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    for (Address at = address; at < address + bytes; at += chunk_) {
      const auto found = mapped_.find(at);
      if (found == mapped_.end()) return note("unmap of what is not mapped");
      handles_[found->second].mapped = false;
      mapped_.erase(found);
    }
  }
  Address allocate(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (fails("allocate") || bytes > memory_bytes - physical_) return 0;
    next_address_ = (next_address_ + 511) / 512 * 512;
    const Address address = next_address_;
    next_address_ += bytes + granularity_;
    plain_[address].resize(bytes);  // always with bytes
    ++num_creates;
    hold(bytes);
    return address;
  }
  void free(Address address, std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto found = plain_.find(address);
    if (found == plain_.end() || found->second.size() != bytes) return note("free of nothing");
    physical_ -= bytes;
    plain_.erase(found);
  }

  Event record(Stream stream) override {
    const std::lock_guard lock(mutex_);
    fails_hard("record");
    ++num_records;
    const Event event = ++last_id_;
    events_[event] = {stream, false};
    queues_[stream].push_back({nullptr, event, 0});
    if (queues_[stream].size() == 1) step(stream);
    return event;
  }
  [[nodiscard]] bool poll(Event event) override {
    const std::lock_guard lock(mutex_);
    fails_hard("poll");
    if (events_.count(event) == 0) note("poll of no event");
    return is_done(event);
  }
  void wait(Event event) override {
    std::function<void()> hook;
    {
      const std::lock_guard lock(mutex_);
      hook.swap(on_wait);
    }
    if (hook) hook();
    const std::lock_guard lock(mutex_);
    fails_hard("wait");
    ++num_waits;
    if (events_.count(event) == 0) return note("wait for no event");
    run_until(event);
  }
  void stream_wait(Stream stream, Event event) override {
    const std::lock_guard lock(mutex_);
    fails_hard("stream_wait");
    ++num_stream_waits;
    if (events_.count(event) == 0) return note("stream_wait for no event");
    if (!is_done(event)) queues_[stream].push_back({nullptr, 0, event});
  }
  void destroy_event(Event event) noexcept override {
    const std::lock_guard lock(mutex_);
    if (events_.erase(event) == 0) note("destroy of no event");
  }

  [[nodiscard]] Stream copy_stream() override { return kCopyStream; }
  static constexpr Stream kCopyStream = 0xC0FFEE;
  void copy_to_host(void* to, Address from, std::size_t bytes, Stream stream) override {
    const std::lock_guard lock(mutex_);
    fails_hard("copy_to_host");
    check_host(to, bytes);
    push_copy(stream, [this, to, from, bytes] {
      check_host(to, bytes);
      each(from, bytes, [&](std::size_t done, std::byte* data, std::size_t part) {
        std::memcpy(static_cast<std::byte*>(to) + done, data, part);
      });
    });
  }
  void copy_to_device(Address to, const void* from, std::size_t bytes, Stream stream) override {
    const std::lock_guard lock(mutex_);
    fails_hard("copy_to_device");
    check_host(from, bytes);
    push_copy(stream, [this, to, from, bytes] {
      check_host(from, bytes);
      each(to, bytes, [&](std::size_t done, std::byte* data, std::size_t part) {
        std::memcpy(data, static_cast<const std::byte*>(from) + done, part);
      });
    });
  }
  void* allocate_host(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (fails("allocate_host") || host_ + bytes > max_host_bytes) return nullptr;
    auto data = std::make_unique<std::byte[]>(bytes);
    void* pointer = data.get();
    hosts_[pointer] = {std::move(data), bytes};
    host_ += bytes;
    return pointer;
  }
  void free_host(void* data, std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto found = hosts_.find(data);
    if (found == hosts_.end() || found->second.bytes != bytes) return note("free_host of nothing");
    host_ -= bytes;
    hosts_.erase(found);
  }

 private:
  struct Work {
    std::function<void()> call;
    Event marks;
    Event waits_for;
  };
  struct EventState {
    Stream stream = 0;
    bool done = false;
  };
  struct Chunk {
    std::size_t bytes = 0;
    std::vector<std::byte> data;
    bool mapped = false;
  };
  struct HostPiece {
    std::unique_ptr<std::byte[]> data;
    std::size_t bytes = 0;
  };

  void note(const std::string& what) {
    if (errors.size() < 20) errors.push_back(what);
  }
  bool fails(const char* call) {
    ++num_fallible;
    if (fail_in == 0 || --fail_in != 0) return false;
    if (fail_throws) throw Failure(call);
    return true;
  }
  void fails_hard(const char* call) {
    ++num_fallible;
    if (fail_in != 0 && --fail_in == 0) throw Failure(call);
  }
  void hold(std::size_t bytes) {
    physical_ += bytes;
    peak_ = std::max(peak_, physical_);
    if (quota_bytes != 0 && physical_ > quota_bytes) note("quota exceeded");
  }
  void push_copy(Stream stream, std::function<void()> copy) {
    queues_[stream].push_back({std::move(copy), 0, 0});
    if (fast_streams) run(stream);
  }
  void check_host(const void* data, std::size_t bytes) {
    const auto found = hosts_.find(const_cast<void*>(data));
    if (found == hosts_.end() || found->second.bytes < bytes) note("copy with freed host memory");
  }
  // An event stays done after it is destroyed: streams may have to wait for it yet.
  bool is_done(Event event) {
    const auto found = events_.find(event);
    return found != events_.end() ? found->second.done : done_.count(event) != 0;
  }
  void run_until(Event event) {
    if (is_done(event)) return;
    Stream stream = 0;
    for (const auto& [id, queue] : queues_)
      for (const Work& work : queue)
        if (work.marks == event) stream = id;
    auto& queue = queues_[stream];
    while (!is_done(event) && !queue.empty()) {
      if (queue.front().waits_for != 0) run_until(queue.front().waits_for);
      step(stream);
    }
  }
  std::byte* find(Address address) {
    if (!can_map_) {
      auto it = plain_.upper_bound(address);
      if (it == plain_.begin()) return nullptr;
      --it;
      const std::size_t offset = address - it->first;
      return offset < it->second.size() ? it->second.data() + offset : nullptr;
    }
    auto it = mapped_.upper_bound(address);
    if (it == mapped_.begin()) return nullptr;
    --it;
    const std::size_t offset = address - it->first;
    return offset < chunk_ ? handles_[it->second].data.data() + offset : nullptr;
  }
  template <class Visit>
  void each(Address address, std::size_t bytes, Visit visit) {
    const std::size_t unit = can_map_ ? chunk_ : 512;
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t part = std::min(bytes - done, unit - (address + done) % unit);
      std::byte* data = find(address + done);
      if (data == nullptr) return note("use of unmapped memory at " + std::to_string(address));
      visit(done, data, part);
      done += part;
    }
  }
  static std::byte pattern(Address at, std::uint64_t seed) {
    const std::uint64_t mixed = (at + 1) * 0x9E3779B97F4A7C15U ^ seed * 0xBF58476D1CE4E5B9U;
    return static_cast<std::byte>(mixed >> 40);
  }
  // Both ends, and a few bytes of each 4 KiB.
  template <class Visit>
  void sample(Address address, std::size_t bytes, Visit visit) {
    each(address, bytes, [&](std::size_t done, std::byte* data, std::size_t part) {
      for (std::size_t i = 0; i < part; i += i + 1 < part && i % 4096 == 0 ? 1 : 4095)
        visit(address + done + i, data + i);
      visit(address + done + part - 1, data + part - 1);
    });
  }

  const std::size_t granularity_;
  const bool can_map_;
  std::recursive_mutex mutex_;
  std::size_t physical_ = 0;
  std::size_t peak_ = 0;
  std::size_t host_ = 0;
  std::size_t chunk_ = 1;
  std::uint64_t last_id_ = 0;
  Address next_address_ = Address{1} << 32;
  std::map<Address, std::size_t> regions_;
  std::map<Handle, Chunk> handles_;
  std::map<Address, Handle> mapped_;
  std::map<Address, std::vector<std::byte>> plain_;
  std::map<Event, EventState> events_;
  std::map<Event, bool> done_;
  std::map<Stream, std::deque<Work>> queues_;
  std::map<void*, HostPiece> hosts_;
};

}  // namespace gpk::runtime::fake
