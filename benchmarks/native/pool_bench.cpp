// The memory pool's own cost: its device does nothing.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "runtime/pool/pool.h"

namespace {

using gpk::runtime::Pool;
using gpk::runtime::PoolAccount;
using gpk::runtime::PoolBlock;
using gpk::runtime::PoolDevice;

// Addresses without memory; all work is done at once.
class NoDevice final : public PoolDevice {
 public:
  bool can_map() const noexcept override { return true; }
  std::size_t granularity_bytes() const noexcept override { return std::size_t{2} << 20; }
  std::size_t free_bytes() noexcept override { return std::size_t{1} << 60; }
  Address reserve(std::size_t bytes, std::size_t alignment) override {
    next_ = (next_ + alignment - 1) / alignment * alignment;
    const Address address = next_;
    next_ += bytes;
    return address;
  }
  void release(Address, std::size_t) noexcept override {}
  Handle create(std::size_t) override { return ++last_id_; }
  void destroy(Handle) noexcept override {}
  bool map(Address, std::span<const Handle>, std::size_t) override { return true; }
  void unmap(Address, std::size_t) noexcept override {}
  Address allocate(std::size_t) override { return 0; }
  void free(Address, std::size_t) noexcept override {}
  Event record(Stream) override { return ++last_id_; }
  bool poll(Event) override { return true; }
  void wait(Event) override {}
  void stream_wait(Stream, Event) override {}
  void destroy_event(Event) noexcept override {}
  Stream copy_stream() override { return 99; }
  void copy_to_host(void*, Address, std::size_t, Stream) override {}
  void copy_to_device(Address, const void*, std::size_t, Stream) override {}
  void* allocate_host(std::size_t bytes) override { return std::malloc(bytes); }
  void free_host(void* data, std::size_t) noexcept override { std::free(data); }

 private:
  Address next_ = Address{1} << 40;
  std::uint64_t last_id_ = 0;
};

struct World {
  NoDevice device;
  Pool pool{device, {}};
  PoolAccount* account = pool.open_account(std::size_t{1} << 40);
};
World& world() {
  static auto* instance = new World;
  return *instance;
}

void BM_AllocateFree(benchmark::State& state) {
  Pool& pool = world().pool;
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) pool.free(pool.allocate(bytes, 1));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_AllocateFree)->Arg(256)->Arg(4096)->Arg(65536)->Arg(1 << 20)->Arg(16 << 20);
BENCHMARK(BM_AllocateFree)->Arg(4096)->ThreadRange(1, 8)->UseRealTime();

void BM_AllocateFreeWithAccount(benchmark::State& state) {
  Pool& pool = world().pool;
  for (auto _ : state) pool.free(pool.allocate(4096, 1, {.account = world().account}));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_AllocateFreeWithAccount)->ThreadRange(1, 8)->UseRealTime();

// A window of live blocks of mixed small sizes on two streams.
void BM_Window(benchmark::State& state) {
  Pool& pool = world().pool;
  std::minstd_rand random(static_cast<unsigned>(state.thread_index() + 1));
  std::array<std::size_t, 1024> sizes{};
  for (std::size_t& size : sizes) size = std::size_t{256} << (random() % 9);
  std::array<PoolBlock*, 64> window{};
  std::size_t i = 0;
  for (auto _ : state) {
    PoolBlock*& slot = window[i % window.size()];
    if (slot != nullptr) pool.free(slot);
    slot = pool.allocate(sizes[i % sizes.size()], 1 + i % 2);
    ++i;
  }
  for (PoolBlock* block : window)
    if (block != nullptr) pool.free(block);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Window)->ThreadRange(1, 8)->UseRealTime();

// What a launch pays per evictable array.
void BM_AcquireRelease(benchmark::State& state) {
  Pool& pool = world().pool;
  PoolBlock* block = pool.allocate(std::size_t{4} << 20, 1, {.evictable = true});
  for (auto _ : state) {
    pool.acquire(block, 1);
    pool.release(block);
  }
  pool.free(block);
}
BENCHMARK(BM_AcquireRelease);

// Time of each pair; the clock's own cost is in it.
void BM_Latency(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  Pool& pool = world().pool;
  std::vector<std::int64_t> times;
  times.reserve(1 << 20);
  for (auto _ : state) {
    const auto start = Clock::now();
    pool.free(pool.allocate(4096, 1));
    const auto ns = std::chrono::nanoseconds(Clock::now() - start).count();
    if (times.size() < times.capacity()) times.push_back(ns);
  }
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) {
    return static_cast<double>(
        times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))]);
  };
  state.counters["p50_ns"] = benchmark::Counter(at(0.5), benchmark::Counter::kAvgThreads);
  state.counters["p99_ns"] = benchmark::Counter(at(0.99), benchmark::Counter::kAvgThreads);
  state.counters["p999_ns"] = benchmark::Counter(at(0.999), benchmark::Counter::kAvgThreads);
}
BENCHMARK(BM_Latency)->Iterations(1 << 20)->ThreadRange(1, 8)->UseRealTime();

void BM_Malloc(benchmark::State& state) {
  for (auto _ : state) {
    void* data = std::malloc(4096);
    benchmark::DoNotOptimize(data);
    std::free(data);
  }
}
BENCHMARK(BM_Malloc);

}  // namespace
