#include "runtime/pool/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "runtime/error.h"
#include "runtime_expect.h"

namespace gpk::runtime {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
using Bytes = std::vector<unsigned char>;

// Real memory on both sides, counted; a device of limited size.
class FakeBlockDevice final : public BlockDevice {
 public:
  ~FakeBlockDevice() override {
    EXPECT_EQ(device_bytes, 0u) << "device memory leaks";
    EXPECT_EQ(host_bytes, 0u) << "host memory leaks";
  }
  std::uint64_t allocate(std::size_t bytes) override {
    if (device_bytes + bytes > device_size) return 0;
    device_bytes += bytes;
    max_device_bytes = std::max(max_device_bytes, device_bytes);
    return reinterpret_cast<std::uint64_t>(new unsigned char[bytes]);
  }
  void free(std::uint64_t ptr, std::size_t bytes) noexcept override {
    device_bytes -= bytes;
    delete[] reinterpret_cast<unsigned char*>(ptr);
  }
  void* allocate_host(std::size_t bytes) override {
    if (no_host_memory) return nullptr;
    host_bytes += bytes;
    return new unsigned char[bytes];
  }
  void free_host(void* ptr, std::size_t bytes) noexcept override {
    host_bytes -= bytes;
    delete[] static_cast<unsigned char*>(ptr);
  }
  void copy_to_host(void* dst, std::uint64_t src, std::size_t bytes) override {
    if (copies_fail) throw std::runtime_error("copy failed");
    std::memcpy(dst, reinterpret_cast<const void*>(src), bytes);
  }
  void copy_to_device(std::uint64_t dst, const void* src, std::size_t bytes) override {
    if (copies_fail) throw std::runtime_error("copy failed");
    std::memcpy(reinterpret_cast<void*>(dst), src, bytes);
  }

  std::size_t device_size = std::size_t{1} << 40;
  std::size_t device_bytes = 0;
  std::size_t max_device_bytes = 0;
  std::size_t host_bytes = 0;
  bool no_host_memory = false;
  bool copies_fail = false;
};

class RuntimeBlockPool : public ::testing::Test {
 protected:
  static Bytes read(BlockPool& pool, BlockId id, std::size_t bytes) {
    Bytes result(bytes);
    pool.read(id, result.data(), bytes);
    return result;
  }
  ManualClock clock_;
  FakeBlockDevice device_;
};

TEST_F(RuntimeBlockPool, Classes) {
  std::size_t size = 256;
  for (; size <= 256 * kMiB; size *= 4) {
    EXPECT_EQ(BlockPool::size_class(size), size);
    if (size < 256 * kMiB) {
      EXPECT_EQ(BlockPool::size_class(size + 1), 4 * size);
    }
  }
  EXPECT_EQ(BlockPool::size_class(1), 256u);
  EXPECT_EQ(BlockPool::size_class(256 * kMiB + 1), 257 * kMiB);
}

TEST_F(RuntimeBlockPool, AllocateFreeReuse) {
  BlockPool pool(device_, clock_, kMiB);
  const BlockId first = pool.allocate(100);
  EXPECT_EQ(first, 0u);
  const std::uint64_t ptr = pool.device_ptr(first);
  BlockPoolStats stats = pool.stats();
  EXPECT_EQ(stats.used, 256u);
  EXPECT_EQ(stats.available, kMiB - 256);
  EXPECT_EQ(stats.active_blocks, 1u);
  pool.free(first);
  stats = pool.stats();
  EXPECT_EQ(stats.used, 0u);
  EXPECT_EQ(stats.cached, 256u);
  EXPECT_EQ(stats.free_blocks, 1u);
  const BlockId second = pool.allocate(200);
  EXPECT_EQ(second, 1u);
  EXPECT_EQ(pool.device_ptr(second), ptr);
  stats = pool.stats();
  EXPECT_EQ(stats.reuse_count, 1u);
  EXPECT_EQ(stats.allocation_count, 2u);
  EXPECT_EQ(stats.cudamalloc_count, 1u);
  EXPECT_EQ(stats.cached, 0u);
  const BlockInfo info = *pool.get_block(second);
  EXPECT_TRUE(info.is_available());
  EXPECT_FALSE(info.is_evicted());
  EXPECT_EQ(info.size_bytes, 256u);
  EXPECT_FALSE(pool.get_block(first).has_value());
  pool.free(second);
  EXPECT_EQ(pool.trim(), 256u);
  EXPECT_EQ(device_.device_bytes, 0u);
}

TEST_F(RuntimeBlockPool, QuotaWithoutEviction) {
  BlockPool pool(device_, clock_, 2 * kMiB);
  const BlockId first = pool.allocate(kMiB);
  pool.allocate(kMiB);
  EXPECT_EQ(kind_of([&] { pool.allocate(1); }), Error::Kind::kMemory);
  EXPECT_EQ(kind_of([&] { pool.allocate(3 * kMiB); }), Error::Kind::kMemory);
  EXPECT_EQ(kind_of([&] { pool.allocate(~std::size_t{0}); }), Error::Kind::kMemory);
  EXPECT_EQ(pool.stats().active_blocks, 2u);
  pool.free(first);
  pool.allocate(1);  // the cached MiB is given back for it: used and cached stay in the quota
  EXPECT_LE(device_.max_device_bytes, 2 * kMiB);
  EXPECT_EQ(pool.stats().cached, 0u);
}

TEST_F(RuntimeBlockPool, EvictsTheLeastRecentlyUsed) {
  BlockPool pool(device_, clock_, 3 * kMiB, true);
  const BlockId a = pool.allocate(kMiB);
  const BlockId b = pool.allocate(kMiB);
  const BlockId c = pool.allocate(kMiB);
  const Bytes data(kMiB, 42);
  pool.write(a, data.data(), data.size());  // a is newer than b and c
  pool.touch(b);
  pool.allocate(kMiB);
  EXPECT_TRUE(pool.get_block(c)->is_evicted());
  EXPECT_EQ(kind_of([&] { (void)pool.device_ptr(c); }), Error::Kind::kState);
  pool.allocate(kMiB);
  EXPECT_TRUE(pool.get_block(a)->is_evicted());
  EXPECT_EQ(pool.stats().eviction_count, 2u);
  EXPECT_EQ(pool.stats().evicted_bytes, 2 * kMiB);
  EXPECT_EQ(read(pool, a, kMiB), data);  // where it is
  pool.restore(a);                       // b goes
  EXPECT_TRUE(pool.get_block(b)->is_evicted());
  EXPECT_TRUE(pool.get_block(a)->is_available());
  EXPECT_FALSE(pool.get_block(a)->on_host);
  EXPECT_EQ(read(pool, a, kMiB), data);
  EXPECT_EQ(pool.stats().used, 3 * kMiB);
  EXPECT_LE(device_.max_device_bytes, 3 * kMiB);
  EXPECT_EQ(kind_of([&] { pool.allocate(4 * kMiB); }), Error::Kind::kMemory);
  pool.free(b);  // evicted: its host memory goes
  EXPECT_EQ(device_.host_bytes, kMiB);
}

TEST_F(RuntimeBlockPool, EvictAndRestoreByHand) {
  BlockPool pool(device_, clock_, kMiB);
  const BlockId id = pool.allocate(1000);
  Bytes data(1000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(i * 7);
  pool.write(id, data.data(), data.size());
  pool.evict(id);
  pool.evict(id);  // nothing to do
  EXPECT_EQ(pool.stats().used, 0u);
  EXPECT_EQ(pool.stats().eviction_count, 1u);
  EXPECT_EQ(pool.get_block(id)->device_ptr, 0u);
  const unsigned char changed = 99;
  pool.write(id, &changed, 1, 5);  // in host memory
  data[5] = 99;
  clock_.advance_ns(77);
  pool.restore(id);
  pool.restore(id);
  EXPECT_EQ(pool.get_block(id)->last_access_ns, 77);
  EXPECT_EQ(pool.stats().restore_count, 1u);
  EXPECT_EQ(read(pool, id, 1000), data);
  EXPECT_EQ(device_.host_bytes, 0u);
}

TEST_F(RuntimeBlockPool, Errors) {
  BlockPool pool(device_, clock_, kMiB);
  const BlockId id = pool.allocate(256);
  unsigned char byte = 0;
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { pool.allocate(0); }, [&] { pool.free(9); }, [&] { pool.touch(9); },
           [&] { pool.evict(9); }, [&] { pool.restore(9); }, [&] { pool.write(9, &byte, 1); },
           [&] { pool.read(9, &byte, 1); }, [&] { (void)pool.device_ptr(9); },
           [&] { pool.write(id, &byte, 257); }, [&] { pool.write(id, &byte, 1, 256); },
           [&] { pool.read(id, &byte, 2, ~std::size_t{0}); },
           [&] { BlockPool none(device_, clock_, 0); }})
    EXPECT_EQ(kind_of(call), Error::Kind::kValue);
  pool.free(id);
  EXPECT_EQ(kind_of([&] { pool.free(id); }), Error::Kind::kValue);
}

// The pool is as before after every failure of the device.
TEST_F(RuntimeBlockPool, Faults) {
  BlockPool pool(device_, clock_, 2 * kMiB, true);
  const BlockId a = pool.allocate(kMiB);
  const BlockId b = pool.allocate(kMiB);
  device_.no_host_memory = true;
  EXPECT_EQ(kind_of([&] { pool.allocate(1); }), Error::Kind::kMemory);
  EXPECT_EQ(kind_of([&] { pool.evict(a); }), Error::Kind::kMemory);
  device_.no_host_memory = false;
  device_.copies_fail = true;
  EXPECT_THROW(pool.allocate(1), std::runtime_error);
  EXPECT_EQ(device_.host_bytes, 0u);
  device_.copies_fail = false;
  EXPECT_EQ(pool.stats().used, 2 * kMiB);
  EXPECT_EQ(pool.stats().active_blocks, 2u);
  EXPECT_EQ(pool.stats().eviction_count, 0u);
  pool.evict(a);
  device_.copies_fail = true;
  EXPECT_THROW(pool.restore(a), std::runtime_error);
  device_.copies_fail = false;
  EXPECT_TRUE(pool.get_block(a)->is_evicted());
  EXPECT_EQ(device_.device_bytes, kMiB);
  pool.restore(a);
  EXPECT_TRUE(pool.get_block(b)->is_available());
}

// The device is smaller than the quota: cached blocks, then live ones make room.
TEST_F(RuntimeBlockPool, DeviceIsFullBeforeTheQuota) {
  device_.device_size = 3 * kMiB;
  BlockPool strict(device_, clock_, 100 * kMiB);
  const BlockId a = strict.allocate(kMiB);
  strict.free(a);
  EXPECT_EQ(kind_of([&] { strict.allocate(4 * kMiB); }), Error::Kind::kMemory);
  EXPECT_EQ(strict.stats().cached, 0u);  // it was tried
  BlockPool pool(device_, clock_, 100 * kMiB, true);
  std::vector<BlockId> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(pool.allocate(kMiB));
  EXPECT_EQ(pool.stats().eviction_count, 3u);
  for (const BlockId id : ids) pool.restore(id);
  pool.clear();
  EXPECT_EQ(pool.stats().active_blocks, 0u);
  EXPECT_EQ(device_.device_bytes, 0u);
}

// Random calls against plain byte arrays: every byte right, the quota never exceeded, LRU exact.
TEST_F(RuntimeBlockPool, AgainstModel) {
  for (unsigned seed = 0; seed < rounds(6); ++seed) {
    std::mt19937 random(seed);
    const std::size_t quota = 64 * kKiB;
    const bool eviction = seed % 3 != 2;
    device_.max_device_bytes = 0;
    BlockPool pool(device_, clock_, quota, eviction);
    struct Block {
      Bytes data;
      std::size_t size;
      bool on_gpu;
      std::uint64_t use;
    };
    std::map<BlockId, Block> model;
    std::uint64_t use = 0;
    std::size_t used = 0;
    const auto make_room = [&](std::size_t size) {
      while (used + size > quota) {
        Block* oldest = nullptr;
        for (auto& [id, block] : model)
          if (block.on_gpu && (oldest == nullptr || block.use < oldest->use)) oldest = &block;
        if (!eviction || oldest == nullptr) return false;
        oldest->on_gpu = false;
        used -= oldest->size;
      }
      return true;
    };
    for (int step = 0; step < 1500; ++step) {
      const unsigned call = random() % 8;
      if (call < 2) {
        const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 80 * kKiB : 6 * kKiB);
        const std::size_t size = BlockPool::size_class(bytes);
        if (size <= quota && make_room(size)) {
          const BlockId id = pool.allocate(bytes);
          Bytes data(size);
          for (unsigned char& byte : data) byte = static_cast<unsigned char>(random());
          pool.write(id, data.data(), size);
          model[id] = {data, size, true, ++use};
          used += size;
        } else {
          ASSERT_EQ(kind_of([&] { pool.allocate(bytes); }), Error::Kind::kMemory);
        }
      } else if (!model.empty()) {
        const auto at = std::next(model.begin(), static_cast<long>(random() % model.size()));
        Block& block = at->second;
        if (call == 2) {
          pool.free(at->first);
          if (block.on_gpu) used -= block.size;
          model.erase(at);
        } else if (call == 3) {
          pool.evict(at->first);
          if (block.on_gpu) used -= block.size;
          block.on_gpu = false;
        } else if (call == 4) {
          if (block.on_gpu || make_room(block.size)) {
            pool.restore(at->first);
            if (!block.on_gpu) used += block.size;
            block.on_gpu = true;
            block.use = ++use;
          } else {
            ASSERT_EQ(kind_of([&] { pool.restore(at->first); }), Error::Kind::kMemory);
          }
        } else if (call == 5) {
          pool.touch(at->first);
          block.use = ++use;
        } else {
          ASSERT_EQ(read(pool, at->first, block.size), block.data);
          block.use = ++use;
        }
      }
      ASSERT_EQ(pool.stats().used, used);
    }
    for (const auto& [id, block] : model) {
      EXPECT_EQ(pool.get_block(id)->on_gpu, block.on_gpu);
      EXPECT_EQ(read(pool, id, block.size), block.data);
    }
    EXPECT_LE(device_.max_device_bytes, quota);
  }
}

TEST_F(RuntimeBlockPool, Threads) {
  BlockPool pool(device_, clock_, 128 * kKiB, true);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 60; ++i) {
        const std::size_t bytes = 1 + random() % (16 * kKiB);
        const BlockId id = pool.allocate(bytes);
        const Bytes data(bytes, static_cast<unsigned char>(t));
        pool.write(id, data.data(), bytes);
        if (i % 3 == 0) pool.evict(id);
        if (i % 5 == 0) pool.restore(id);
        EXPECT_EQ(read(pool, id, bytes), data);
        pool.free(id);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.stats().used, 0u);
  EXPECT_EQ(pool.stats().active_blocks, 0u);
  EXPECT_LE(device_.max_device_bytes, 128 * kKiB);
}

}  // namespace
}  // namespace gpk::runtime
