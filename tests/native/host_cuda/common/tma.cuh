// TMA copies to shared memory (native/kernels/common/tma.cuh) in C++, with the 128-byte swizzle.
// The thread that issues a copy does it; its barrier learns of the bytes.
#pragma once

#include "args/tensor_map.h"
#include "common/barrier.cuh"

namespace gpk {

using kernels::TensorMap;

namespace host {

// What a test puts into a TensorMap. Innermost dimension first; a row of a box is 128 bytes.
struct Tensor {
  const void* data;
  long long pitches[3];  // bytes, of the dimensions from the second on
  int sizes[4];
  int box[4];
  int element_bytes;

  [[nodiscard]] TensorMap map() const {
    static_assert(sizeof(Tensor) <= sizeof(TensorMap));
    TensorMap result{};
    std::memcpy(&result, this, sizeof(Tensor));
    return result;
  }
};

}  // namespace host

namespace detail {

inline void load_box(unsigned to, const TensorMap& map, unsigned barrier, const int (&at)[4]) {
  host::Tensor tensor;
  std::memcpy(&tensor, &map, sizeof(tensor));
  const int row_bytes = tensor.box[0] * tensor.element_bytes;
  int bytes = 0;
  for (int w = 0; w < tensor.box[3]; ++w)
    for (int z = 0; z < tensor.box[2]; ++z)
      for (int y = 0; y < tensor.box[1]; ++y)
        for (int byte = 0; byte < row_bytes; byte += tensor.element_bytes, ++bytes) {
          const int place[] = {at[0] + byte / tensor.element_bytes, at[1] + y, at[2] + z,
                               at[3] + w};
          bool inside = true;
          long long offset = static_cast<long long>(place[0]) * tensor.element_bytes;
          for (int i = 0; i < 4; ++i) {
            inside = inside && place[i] >= 0 && place[i] < tensor.sizes[i];
            if (i > 0) offset += place[i] * tensor.pitches[i - 1];
          }
          const unsigned line =
              static_cast<unsigned>((w * tensor.box[2] + z) * tensor.box[1] + y) * 128u;
          unsigned address = to + line + static_cast<unsigned>(byte);
          address ^= (address >> 7 & 7u) << 4;
          const auto size = static_cast<std::size_t>(tensor.element_bytes);
          if (inside)
            std::memcpy(at_shared(address), static_cast<const char*>(tensor.data) + offset, size);
          else
            std::memset(at_shared(address), 0, size);
        }
  Mbarrier(barrier).update(0, -bytes * tensor.element_bytes);
}

}  // namespace detail

inline void prefetch_map(const TensorMap&) {}
inline void load_box(unsigned to, const TensorMap& map, unsigned barrier, int x, int y, int z) {
  detail::load_box(to, map, barrier, {x, y, z, 0});
}
inline void load_box(unsigned to, const TensorMap& map, unsigned barrier, int x, int y, int z,
                     int w) {
  detail::load_box(to, map, barrier, {x, y, z, w});
}
inline void shared_to_copies_fence() {}

}  // namespace gpk
