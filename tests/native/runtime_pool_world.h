// Random operations on a pool against a model that knows only what was promised: blocks do not
// overlap, keep their bytes, stay within quota and limits, and leave nothing behind.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "runtime/pool/pool.h"
#include "runtime_pool_fake.h"

namespace gpk::runtime::fake {

struct PoolSetup {
  std::uint64_t seed = 1;
  bool maps = true;
  std::size_t quota_chunks = 24;
  bool evict_by_default = false;
  std::size_t small_max_bytes = std::size_t{8} << 10;
};

class PoolWorld {
 public:
  static constexpr std::size_t kChunk = std::size_t{16} << 10;

  explicit PoolWorld(const PoolSetup& setup)
      : device(4096, setup.maps), random_(setup.seed), setup_(setup), pool(device, options(setup)) {
    device.quota_bytes = setup.quota_chunks * kChunk;
    accounts_ = {nullptr, pool.open_account(10 * kChunk, PoolClass::kBestEffort),
                 pool.open_account(0, PoolClass::kGuaranteed)};
  }

  // Device failures that tests inject may come through; the pool must be as good as before.
  void step() {
    try {
      act();
    } catch (const PoolFake::Failure&) {
      ++num_failures;
    }
    check();
  }

  void finish() {
    device.fail_in = 0;
    while (!live_.empty()) free();
    for (PoolArena* arena : arenas_) pool.close(arena);
    device.run_all();
    pool.trim();
    const PoolStats stats = pool.stats();
    EXPECT_EQ(stats.used_bytes, 0u);
    EXPECT_EQ(stats.reserved_bytes, 0u);
    EXPECT_EQ(stats.pending_bytes, 0u);
    EXPECT_EQ(stats.evicted_bytes, 0u);
    EXPECT_EQ(stats.host_bytes, 0u);
    EXPECT_EQ(stats.num_blocks, 0u);
    EXPECT_EQ(device.physical_bytes(), 0u);
    EXPECT_EQ(device.host_bytes(), 0u);
    EXPECT_EQ(num_leaks(), 0u);
  }

  PoolFake device;
  std::size_t num_refused = 0;
  std::size_t num_allocated = 0;
  std::size_t num_failures = 0;

 private:
  using Stream = Pool::Stream;
  static constexpr Stream kGone = 0;  // a stream that no longer exists

  struct Live {
    PoolBlock* block;
    std::size_t asked;
    std::uint64_t seed;
    Stream home;
    Stream last;             // that used it
    std::set<Stream> users;  // without home
    std::size_t account;
  };

  void act() {
    const std::size_t roll = pick(100);
    if (roll < 30)
      allocate();
    else if (roll < 50)
      use();
    else if (roll < 70)
      free();
    else if (roll < 85)
      device.step(1 + pick(4));
    else if (roll < 88)
      device.step(PoolFake::kCopyStream);
    else if (roll < 92)
      move();
    else if (roll < 94)
      change_quota();
    else if (roll < 96)
      forget();
    else if (roll < 98)
      change_arena();
    else if (roll < 99)
      pool.trim();
    else
      device.run_all();
  }

  static PoolOptions options(const PoolSetup& setup) {
    PoolOptions result;
    result.chunk_bytes = kChunk;
    result.region_bytes = 64 * kChunk;
    result.segment_bytes = 2 * kChunk;
    result.small_max_bytes = setup.small_max_bytes;
    result.quota_bytes = setup.quota_chunks * kChunk;
    result.evict_from_bytes = setup.evict_by_default ? 1 : 0;
    return result;
  }
  std::size_t pick(std::size_t n) { return random_() % n; }
  // Marks of live streams may be open.
  std::size_t num_leaks() const { return device.num_events() > 5 ? device.num_events() : 0; }

  void order(Stream earlier, Stream later) {
    if (earlier == later) return;
    const std::size_t fail_in = std::exchange(device.fail_in, 0);  // not the pool's call
    const auto event = device.record(earlier);
    device.stream_wait(later, event);
    device.destroy_event(event);
    device.fail_in = fail_in;
  }

  void launch(Live& live, Stream stream, bool write) {
    order(live.last, stream);
    const auto address = live.block->address;
    const std::size_t bytes = live.asked;
    device.launch(stream, [this, address, bytes, seed = live.seed] {
      if (seed != 0) device.expect(address, bytes, seed);
    });
    if (write) {
      live.seed = ++last_seed_;
      device.launch(
          stream, [this, address, bytes, seed = live.seed] { device.fill(address, bytes, seed); });
    }
    live.last = stream;
    if (stream != live.home) live.users.insert(stream);
  }

  void allocate() {
    const std::size_t kind = pick(10);
    const std::size_t bytes = kind < 5   ? 1 + pick(2000)
                              : kind < 7 ? 1 + pick(8 << 10)
                                         : 1 + pick(6 * kChunk);
    const Stream stream = 1 + pick(4);
    PoolPlace place;
    const std::size_t account = pick(3);
    place.account = accounts_[account];
    if (!arenas_.empty() && pick(4) == 0) place.arena = arenas_[pick(arenas_.size())];
    place.evictable = pick(6) == 0;
    PoolBlock* block = nullptr;
    try {
      block = pool.allocate(bytes, stream, place);
    } catch (const OutOfMemory& error) {
      ASSERT_EQ(error.kind(), Error::Kind::kMemory);
      ++num_refused;
      return;
    }
    ++num_allocated;
    ASSERT_GE(block->bytes, bytes);
    ASSERT_EQ(block->address % 256, 0u);
    const auto next = ranges_.lower_bound(block->address);
    ASSERT_TRUE(next == ranges_.end() || block->address + block->bytes <= next->first);
    ASSERT_TRUE(next == ranges_.begin() || std::prev(next)->second <= block->address);
    ranges_[block->address] = block->address + block->bytes;
    charged_[account] += block->bytes;
    Live live{block, bytes, 0, stream, stream, {}, account};
    live_.push_back(live);
    use_block(live_.back(), stream, true);
  }

  void use_block(Live& live, Stream stream, bool write) {
    try {
      const PoolUse use(pool, live.block, stream);
      launch(live, stream, write);
    } catch (const OutOfMemory&) {
      ++num_refused;
    }
  }

  void use() {
    if (live_.empty()) return;
    Live& live = live_[pick(live_.size())];
    use_block(live, 1 + pick(4), pick(2) == 0);
  }

  void free() {
    if (live_.empty()) return;
    const std::size_t i = pick(live_.size());
    Live live = live_[i];
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
    try {
      use_block(live, live.last, false);  // still to be read when it is freed
    } catch (const PoolFake::Failure&) {
      ++num_failures;
    }
    ranges_.erase(live.block->address);
    charged_[live.account] -= live.block->bytes;
    const std::vector<Stream> others(live.users.begin(), live.users.end());
    ASSERT_NO_THROW(pool.free(live.block, others));
  }

  void move() {
    if (live_.empty() || !setup_.maps) return;
    Live& live = live_[pick(live_.size())];
    try {
      switch (pick(5)) {
        case 0: pool.evict(live.block); break;
        case 1: pool.set_evictable(live.block, pick(3) != 0); break;
        case 2: pool.prefetch(live.block); break;
        case 3: pool.touch(live.block); break;
        default: pin(live.block);
      }
    } catch (const OutOfMemory&) {
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), Error::Kind::kState) << error.what();
    }
  }

  void pin(PoolBlock* block) {
    pool.pin(block);
    EXPECT_FALSE(pool.is_evicted(block));
    try {
      allocate();
    } catch (const PoolFake::Failure&) {
      ++num_failures;
    }
    EXPECT_FALSE(pool.is_evicted(block));
    pool.unpin(block);
  }

  void change_quota() {
    const std::size_t quota = (setup_.quota_chunks / 2 + pick(setup_.quota_chunks)) * kChunk;
    const std::size_t before = device.quota_bytes;
    device.quota_bytes = std::max(quota, before);
    try {
      pool.set_quota(quota);
      device.quota_bytes = quota;
      ASSERT_LE(device.physical_bytes(), quota);
    } catch (const std::exception&) {
      device.quota_bytes = before;
      ASSERT_EQ(pool.stats().quota_bytes, before);
    }
  }

  void forget() {
    const Stream stream = 1 + pick(4);
    const Stream heir = 1 + stream % 4;
    const bool quiet = pick(2) == 0;
    if (quiet) device.run(stream);
    for (Live& live : live_) {
      // A reused id is another stream. The work of the old one on small blocks,
      // which the pool does not see, has to be over.
      if (live.users.erase(stream) != 0 || live.last == stream) device.run(stream);
      if (live.home == stream) live.home = kGone;
      if (live.last != stream) continue;
      live.last = heir;
      if (heir != live.home) live.users.insert(heir);
    }
    // A device that cannot record the end of a stream is lost; this one is not.
    const std::size_t fail_in = std::exchange(device.fail_in, 0);
    pool.forget_stream(stream);
    device.fail_in = fail_in;
  }

  void change_arena() {
    if (arenas_.size() < 3 && pick(2) == 0) {
      try {
        arenas_.push_back(pick(2) == 0 ? pool.reserve((1 + pick(6)) * kChunk)
                                       : pool.open_private());
      } catch (const OutOfMemory&) {
        ++num_refused;
      }
    } else if (!arenas_.empty()) {
      const std::size_t i = pick(arenas_.size());
      const std::vector<Stream> streams = {1 + pick(4)};
      ASSERT_NO_THROW(pool.close(
          arenas_[i], pick(2) == 0 ? std::span<const Stream>(streams) : std::span<const Stream>()));
      arenas_.erase(arenas_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void check() {
    ASSERT_TRUE(device.errors.empty()) << device.errors.front();
    const PoolStats stats = pool.stats();
    ASSERT_EQ(stats.reserved_bytes, device.physical_bytes());
    ASSERT_LE(stats.reserved_bytes, device.quota_bytes);
    ASSERT_EQ(stats.num_blocks, live_.size());
    ASSERT_EQ(stats.used_bytes + stats.evicted_bytes, charged_[0] + charged_[1] + charged_[2]);
    for (std::size_t i = 1; i < 3; ++i) ASSERT_EQ(accounts_[i]->stats().used_bytes, charged_[i]);
    ASSERT_LE(charged_[1], 10 * kChunk);
  }

  std::minstd_rand random_;
  const PoolSetup setup_;
  std::uint64_t last_seed_ = 0;
  std::vector<Live> live_;
  std::map<PoolDevice::Address, PoolDevice::Address> ranges_;
  std::array<std::size_t, 3> charged_{};
  std::vector<PoolAccount*> accounts_;
  std::vector<PoolArena*> arenas_;

 public:
  Pool pool;
};

}  // namespace gpk::runtime::fake
