// native/kernels/common/exchange.cuh in C++.
#pragma once

namespace gpk {

inline void publish(unsigned long long* to, float value, unsigned tag) {
  std::atomic_ref(*to).store(static_cast<unsigned long long>(tag) << 32 | __float_as_uint(value),
                             std::memory_order_relaxed);
}

template <int kN>
void receive(const unsigned long long* from, int step, int count, unsigned tag,
             float (&values)[kN]) {
  for (int i = 0; i < kN && i < count; ++i) {
    const std::atomic_ref word(const_cast<unsigned long long&>(from[i * step]));
    unsigned long long value = word.load(std::memory_order_relaxed);
    while (static_cast<unsigned>(value >> 32) != tag) {
      std::this_thread::yield();
      value = word.load(std::memory_order_relaxed);
    }
    values[i] = __uint_as_float(static_cast<unsigned>(value));
  }
}

}  // namespace gpk
