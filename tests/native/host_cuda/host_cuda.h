// CUDA C++ on the host: the built-ins that kernels without inline PTX use.
#pragma once

#include <array>
#include <atomic>
#include <barrier>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one after another

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};
inline thread_local Dim3 threadIdx;  // NOLINT(readability-identifier-naming): CUDA's names
inline thread_local Dim3 blockIdx;
inline thread_local Dim3 blockDim;
inline thread_local Dim3 gridDim;

namespace host_cuda {

// A barrier that threads leave when they return, and what they exchange at it.
class Team {
 public:
  explicit Team(int size) : barrier_(size) {}

  void sync() { barrier_.arrive_and_wait(); }
  void leave() { barrier_.arrive_and_drop(); }

  template <class T>
  T exchange(T value, int lane, int source) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::memcpy(&slots_[static_cast<std::size_t>(lane)], &value, sizeof(T));
    sync();
    std::memcpy(&value, &slots_[static_cast<std::size_t>(source)], sizeof(T));
    sync();
    return value;
  }

 private:
  std::barrier<> barrier_;
  std::array<std::uint64_t, 32> slots_{};
};

inline thread_local Team* t_block = nullptr;
inline thread_local Team* t_warp = nullptr;

inline int lane() { return static_cast<int>(threadIdx.x % 32); }

// One-dimensional blocks.
template <class Kernel>
void launch(unsigned grid, unsigned block, const Kernel& kernel) {
  for (unsigned b = 0; b < grid; ++b) {
    Team all(static_cast<int>(block));
    std::vector<std::unique_ptr<Team>> warps;
    for (unsigned first = 0; first < block; first += 32)
      warps.push_back(std::make_unique<Team>(static_cast<int>(std::min(block - first, 32u))));
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < block; ++t)
      threads.emplace_back([&, b, t] {
        threadIdx = {t, 0, 0};
        blockIdx = {b, 0, 0};
        blockDim = {block, 1, 1};
        gridDim = {grid, 1, 1};
        t_block = &all;
        t_warp = warps[t / 32].get();
        kernel();
        t_warp->leave();
        t_block->leave();
      });
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace host_cuda

inline void __syncthreads() { host_cuda::t_block->sync(); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  const int lane = host_cuda::lane();
  return host_cuda::t_warp->exchange(value, lane, lane ^ mask);
}

template <class T>
T __shfl_up_sync(unsigned, T value, int distance) {
  const int lane = host_cuda::lane();
  return host_cuda::t_warp->exchange(value, lane, lane < distance ? lane : lane - distance);
}
template <class T>
T __shfl_sync(unsigned, T value, int source) {
  return host_cuda::t_warp->exchange(value, host_cuda::lane(), source & 31);
}
inline void __syncwarp() { host_cuda::t_warp->sync(); }
inline int atomicAdd(int* address, int value) { return std::atomic_ref(*address).fetch_add(value); }

inline float __int_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline float __expf(float x) { return std::exp(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline void sincospif(float x, float* sine, float* cosine) {
  constexpr double kPi = 3.14159265358979323846;
  *sine = static_cast<float>(std::sin(x * kPi));
  *cosine = static_cast<float>(std::cos(x * kPi));
}
using std::max;
using std::min;
