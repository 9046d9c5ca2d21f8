// native/kernels/common/mma.cuh in C++: lanes exchange their registers through the warp's slots.
#pragma once

#include "common/dtype.cuh"
#include "common/shared.cuh"

namespace gpk {

inline void load_matrices(unsigned (&r)[4], unsigned address) {
  const int lane = host_cuda::lane();
  host_cuda::t_warp->share(address, lane, [&](const auto& of) {
    for (int m = 0; m < 4; ++m)
      std::memcpy(&r[m], detail::at_shared(of(m * 8 + lane / 4)) + lane % 4 * 4, 4);
  });
}

inline void load_matrices_transposed(unsigned (&r)[4], unsigned address) {
  const int lane = host_cuda::lane();
  host_cuda::t_warp->share(address, lane, [&](const auto& of) {
    for (int m = 0; m < 4; ++m) {
      unsigned short pair[2];
      for (int e = 0; e < 2; ++e)
        std::memcpy(&pair[e], detail::at_shared(of(m * 8 + lane % 4 * 2 + e)) + lane / 4 * 2, 2);
      std::memcpy(&r[m], pair, 4);
    }
  });
}

inline unsigned round_to_tf32(unsigned bits) {
  if ((bits & 0x7f800000u) == 0x7f800000u) return bits;  // no number
  return (bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u;
}

template <class T>
struct MmaAcc {
  using Type = float;
};
template <>
struct MmaAcc<signed char> {
  using Type = int;
};

namespace detail {

// Element `e` of a register.
template <class T>
double element(unsigned word, int e) {
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<float>(word & 0xffffe000u);  // the hardware reads TF32's bits alone
  } else {
    T x;
    std::memcpy(&x, reinterpret_cast<const char*>(&word) + e * static_cast<int>(sizeof(T)),
                sizeof(T));
    return to_compute(x);
  }
}

struct MmaRegisters {
  unsigned a[4];
  unsigned b[2];
};

}  // namespace detail

template <class TA, class TB>
struct Mma {
  static_assert(sizeof(TA) == sizeof(TB));
  static constexpr int kParts = 1;
  static constexpr int kPerWord = 4 / static_cast<int>(sizeof(TA));

  template <int kPart, class Acc>
  static void run(Acc (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    const int lane = host_cuda::lane();
    const detail::MmaRegisters mine{{a[0], a[1], a[2], a[3]}, {b0, b1}};
    host_cuda::t_warp->share(mine, lane, [&](const auto& of) {
      for (int i = 0; i < 4; ++i) {
        double sum = static_cast<double>(c[i]);
        for (int word = 0; word < 8; ++word) {  // of 32 bytes of k
          const int t = word % 4;
          const detail::MmaRegisters row = of(lane / 4 * 4 + t);
          const detail::MmaRegisters col = of((lane % 4 * 2 + i % 2) * 4 + t);
          for (int e = 0; e < kPerWord; ++e)
            sum += detail::element<TA>(row.a[i / 2 + word / 4 * 2], e) *
                   detail::element<TB>(col.b[word / 4], e);
        }
        c[i] = static_cast<Acc>(sum);
      }
    });
  }
};

}  // namespace gpk
