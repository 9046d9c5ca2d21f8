// CUDA C++ on the host: the built-ins that kernels without inline PTX use.
#pragma once

#include <array>
#include <atomic>
#include <barrier>
#include <bit>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)
#define __shared__ static  // blocks run one after another, but for launch_together

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};
inline thread_local Dim3 threadIdx;  // NOLINT(readability-identifier-naming): CUDA's names
inline thread_local Dim3 blockIdx;
inline thread_local Dim3 blockDim;
inline thread_local Dim3 gridDim;

struct uint2 {  // NOLINT(readability-identifier-naming)
  unsigned x, y;
};

namespace host_cuda {

// A barrier that threads leave when they return, and what they exchange at it.
class Team {
 public:
  explicit Team(int size) : barrier_(size) {}

  void sync() { barrier_.arrive_and_wait(); }
  void leave() { barrier_.arrive_and_drop(); }

  template <class T>
  T exchange(T value, int lane, int source) {
    T result;
    share(value, lane, [&](const auto& of) { result = of(source); });
    return result;
  }

  // Calls read(of), with of(l) the value of lane l.
  template <class T, class Read>
  void share(const T& value, int lane, const Read& read) {
    static_assert(sizeof(T) <= sizeof(Slot));
    std::memcpy(&slots_[static_cast<std::size_t>(lane)], &value, sizeof(T));
    sync();
    read([this](int of) {
      T other;
      std::memcpy(&other, &slots_[static_cast<std::size_t>(of)], sizeof(T));
      return other;
    });
    sync();
  }

 private:
  using Slot = std::array<std::uint64_t, 4>;
  std::barrier<> barrier_;
  std::array<Slot, 32> slots_{};
};

// A barrier that completes when as many threads as each says have arrived (bar.sync, bar.arrive).
class NamedBarrier {
 public:
  void arrive(int threads, bool waits) {
    std::unique_lock lock(mutex_);
    const unsigned phase = phase_;
    if (++num_arrived_ == threads) {
      num_arrived_ = 0;
      ++phase_;
      completed_.notify_all();
    } else if (waits) {
      completed_.wait(lock, [&] { return phase_ != phase; });
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable completed_;
  int num_arrived_ = 0;
  unsigned phase_ = 0;
};
// CUDA's sixteen, then one for each warpgroup.
inline constexpr unsigned kWarpgroupBarrier = 16;
using NamedBarriers = std::array<NamedBarrier, 24>;

inline thread_local Team* t_block = nullptr;
inline thread_local Team* t_warp = nullptr;
inline thread_local NamedBarriers* t_named = nullptr;

inline int lane() { return static_cast<int>(threadIdx.x % 32); }

// Dynamic shared memory, a part for each block that runs at the same time.
inline constexpr std::size_t kArenaBytes = 256 << 10;
inline constexpr unsigned kMaxTogether = 16;
alignas(1024) inline std::array<unsigned char, kArenaBytes * kMaxTogether> g_arena;
inline thread_local unsigned char* t_arena = nullptr;

// One block: its teams and threads.
class Block {
 public:
  template <class Kernel>
  Block(Dim3 grid, Dim3 at, unsigned size, unsigned slot, const Kernel& kernel)
      : all_(static_cast<int>(size)) {
    for (unsigned first = 0; first < size; first += 32)
      warps_.push_back(std::make_unique<Team>(static_cast<int>(std::min(size - first, 32u))));
    for (unsigned t = 0; t < size; ++t)
      threads_.emplace_back([this, &kernel, grid, at, size, slot, t] {
        threadIdx = {t, 0, 0};
        blockIdx = at;
        blockDim = {size, 1, 1};
        gridDim = grid;
        t_block = &all_;
        t_warp = warps_[t / 32].get();
        t_named = &named_;
        t_arena = g_arena.data() + slot * kArenaBytes;
        kernel();
        t_warp->leave();
        t_block->leave();
      });
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  Team all_;
  NamedBarriers named_;
  std::vector<std::unique_ptr<Team>> warps_;
  std::vector<std::thread> threads_;
};

template <class Visit>
void for_each_block(Dim3 grid, const Visit& visit) {
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) visit(Dim3{x, y, z});
}

// One-dimensional blocks, one after another.
template <class Kernel>
void launch(Dim3 grid, unsigned block, const Kernel& kernel) {
  for_each_block(grid, [&](Dim3 at) { Block(grid, at, block, 0, kernel).join(); });
}
template <class Kernel>
void launch(unsigned grid, unsigned block, const Kernel& kernel) {
  launch(Dim3{grid, 1, 1}, block, kernel);
}

// All blocks at the same time, for kernels that wait for other blocks. They have no static shared
// memory: there is one of each variable.
template <class Kernel>
void launch_together(Dim3 grid, unsigned block, const Kernel& kernel) {
  std::vector<std::unique_ptr<Block>> blocks;
  for_each_block(grid, [&](Dim3 at) {
    const auto slot = static_cast<unsigned>(blocks.size());
    blocks.push_back(std::make_unique<Block>(grid, at, block, slot, kernel));
  });
  for (const auto& each : blocks) each->join();
}

// Clusters of blocks, one cluster after another. Shared memory is that of
// common/cluster_memory.cuh and dynamic.
inline thread_local Team* t_cluster = nullptr;
template <class Kernel>
void launch_clusters(unsigned grid, unsigned cluster, unsigned block, const Kernel& kernel) {
  for (unsigned first = 0; first < grid; first += cluster) {
    Team all(static_cast<int>(cluster * block));
    const auto member = [&] {
      t_cluster = &all;
      kernel();
      all.leave();
    };
    std::vector<std::unique_ptr<Block>> blocks;
    for (unsigned b = 0; b < cluster; ++b)
      blocks.push_back(
          std::make_unique<Block>(Dim3{grid, 1, 1}, Dim3{first + b, 0, 0}, block, b, member));
    for (const auto& each : blocks) each->join();
  }
}

}  // namespace host_cuda

inline void __syncthreads() { host_cuda::t_block->sync(); }
inline void __syncwarp() { host_cuda::t_warp->sync(); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
template <class T>
T __shfl_sync(unsigned, T value, int source) {
  return host_cuda::t_warp->exchange(value, host_cuda::lane(), source & 31);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  const int lane = host_cuda::lane();
  return host_cuda::t_warp->exchange(value, lane, lane ^ mask);
}
template <class T>
T __shfl_up_sync(unsigned, T value, int by) {
  const int lane = host_cuda::lane();
  return host_cuda::t_warp->exchange(value, lane, lane < by ? lane : lane - by);
}
inline bool __any_sync(unsigned, bool mine) {
  bool any = false;
  host_cuda::t_warp->share(mine, host_cuda::lane(), [&](const auto& of) {
    for (int lane = 0; lane < 32; ++lane) any = any || of(lane);
  });
  return any;
}
inline unsigned __reduce_max_sync(unsigned, unsigned mine) {
  unsigned all = mine;
  host_cuda::t_warp->share(mine, host_cuda::lane(), [&](const auto& of) {
    for (int lane = 0; lane < 32; ++lane) all = std::max<unsigned>(all, of(lane));
  });
  return all;
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned mine) {
  return ~__reduce_max_sync(mask, ~mine);
}
template <class T>
T atomicAdd(T* p, T value) {
  return std::atomic_ref<T>(*p).fetch_add(value, std::memory_order_relaxed);
}

inline unsigned atomicInc(unsigned* p, unsigned largest) {
  std::atomic_ref word(*p);
  unsigned before = word.load();
  while (!word.compare_exchange_weak(before, before >= largest ? 0 : before + 1)) {
  }
  return before;
}

inline float __int_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(x) * y >> 32);
}
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>(static_cast<Wide>(x) * y >> 64);
}
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
// Four of the eight bytes of x (low) and y, by the low three bits of each nibble of `selector`.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(y) << 32 | x;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7u) * 8 & 0xffu) << 8 * i;
  return result;
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline void sincospif(float x, float* sine, float* cosine) {
  constexpr double kPi = 3.14159265358979323846;
  *sine = static_cast<float>(std::sin(x * kPi));
  *cosine = static_cast<float>(std::cos(x * kPi));
}
inline void sincospi(double x, double* sine, double* cosine) {
  constexpr long double kPi = 3.14159265358979323846264338327950288L;
  *sine = static_cast<double>(std::sin(x * kPi));
  *cosine = static_cast<double>(std::cos(x * kPi));
}
using std::max;
using std::min;
