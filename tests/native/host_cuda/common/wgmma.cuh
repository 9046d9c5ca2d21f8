// native/kernels/common/wgmma.cuh in C++, for 16-bit operands. An MMA is done when the thread waits
// for its group and no sooner, so that a wait that is missing, and an operand that is overwritten
// too early, show.
#pragma once

#include <deque>
#include <functional>

#include "common/dtype.cuh"
#include "common/shared.cuh"

namespace gpk {

inline unsigned long long operand(unsigned address, unsigned panel_bytes) {
  return static_cast<unsigned long long>((address & 0x3ffffu) >> 4) |
         static_cast<unsigned long long>(panel_bytes >> 4) << 16;
}

namespace detail {

using MmaGroup = std::vector<std::function<void()>>;
inline thread_local MmaGroup t_open_mmas;
inline thread_local std::deque<MmaGroup> t_mma_groups;

// Element (row, k) of an operand, `row` being a row of A or a column of B.
template <class T, int kTransposed>
float operand_element(unsigned long long descriptor, int row, int k) {
  auto address = static_cast<unsigned>(descriptor & 0x3fffu) << 4;
  const auto panel_bytes = static_cast<unsigned>(descriptor >> 16 & 0x3fffu) << 4;
  const int line = kTransposed ? k : row;
  const int column = kTransposed ? row : k;
  address += static_cast<unsigned>(column / 64) * panel_bytes +
             static_cast<unsigned>(line * 128 + column % 64 * 2);
  address ^= (address >> 7 & 7u) << 4;
  T x;
  std::memcpy(&x, host_cuda::t_arena + address, sizeof(T));
  return to_compute(x);
}

// d[64 x kN] (+)= a b for this thread's two rows, of which `a(half, k)` gives the elements.
template <int kN, class T, int kTransB, class A>
void multiply(float (&d)[kN / 2], const A& a, unsigned long long b, int add) {
  float rows[2][16];
  for (int half = 0; half < 2; ++half)
    for (int k = 0; k < 16; ++k) rows[half][k] = a(half, k);
  for (int g = 0; g < kN / 8; ++g)
    for (int e = 0; e < 2; ++e) {
      double sums[2] = {};
      for (int k = 0; k < 16; ++k) {
        const float x = operand_element<T, kTransB>(b, 8 * g + 2 * (host_cuda::lane() % 4) + e, k);
        for (int half = 0; half < 2; ++half) sums[half] += static_cast<double>(rows[half][k]) * x;
      }
      for (int half = 0; half < 2; ++half) {
        float& to = d[4 * g + 2 * half + e];
        to = static_cast<float>((add != 0 ? to : 0.0) + sums[half]);
      }
    }
}

}  // namespace detail

inline void wgmma_fence() {}
inline void wgmma_commit() {
  detail::t_mma_groups.push_back(std::move(detail::t_open_mmas));
  detail::t_open_mmas.clear();
}
// The MMAs of a warpgroup are one: none of its warps is done before the others.
template <int kPending>
void wgmma_wait() {
  while (detail::t_mma_groups.size() > kPending) {
    for (const auto& mma : detail::t_mma_groups.front()) mma();
    detail::t_mma_groups.pop_front();
  }
  (*host_cuda::t_named)[host_cuda::kWarpgroupBarrier + threadIdx.x / 128].arrive(128, true);
}
template <int kSize, class Acc>
void wgmma_touch(Acc (&)[kSize]) {}

template <int kCount>
void register_dealloc() {}
template <int kCount>
void register_alloc() {}

template <int kN, class TA, class TB, int kTransA, int kTransB>
struct Wgmma {
  static_assert(kIsSame<TA, TB> && sizeof(TA) == 2);
  static void run(float (&d)[kN / 2], unsigned long long a, unsigned long long b, int add) {
    detail::t_open_mmas.push_back([&d, a, b, add] {
      const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
      const int row = warp * 16 + host_cuda::lane() / 4;
      const auto of_a = [&](int half, int k) {
        return detail::operand_element<TA, kTransA>(a, row + 8 * half, k);
      };
      detail::multiply<kN, TB, kTransB>(d, of_a, b, add);
    });
  }
};

template <int kN, class T, int kTransB>
struct WgmmaRegisters {
  static void run(float (&d)[kN / 2], const unsigned* a, unsigned long long b, int add) {
    detail::t_open_mmas.push_back([&d, a, b, add] {
      const int lane = host_cuda::lane();
      float rows[2][16];
      host_cuda::t_warp->share(std::array{a[0], a[1], a[2], a[3]}, lane, [&](const auto& of) {
        for (int half = 0; half < 2; ++half)
          for (int k = 0; k < 16; ++k) {
            const unsigned word =
                of(lane / 4 * 4 + k % 8 / 2)[static_cast<std::size_t>(half + k / 8 * 2)];
            rows[half][k] =
                to_compute(T{static_cast<unsigned short>(k % 2 == 0 ? word : word >> 16)});
          }
      });
      detail::multiply<kN, T, kTransB>(d, [&](int half, int k) { return rows[half][k]; }, b, add);
    });
  }
};

}  // namespace gpk
