// native/kernels/common/exchange.cuh in C++.
#pragma once

namespace gpk {

inline void publish(unsigned long long* to, float value, unsigned tag) {
  std::atomic_ref(*to).store(static_cast<unsigned long long>(tag) << 32 | __float_as_uint(value),
                             std::memory_order_relaxed);
}

inline float receive(const unsigned long long* from, unsigned tag) {
  const std::atomic_ref word(*const_cast<unsigned long long*>(from));
  unsigned long long value = word.load(std::memory_order_relaxed);
  while (static_cast<unsigned>(value >> 32) != tag) {
    std::this_thread::yield();
    value = word.load(std::memory_order_relaxed);
  }
  return __uint_as_float(static_cast<unsigned>(value));
}

}  // namespace gpk
