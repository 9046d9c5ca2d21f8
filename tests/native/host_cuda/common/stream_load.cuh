// native/kernels/common/stream_load.cuh in C++.
#pragma once

namespace gpk {

struct Chunk {
  unsigned v[4];
};

inline Chunk load_weights(const void* p, bool valid) {
  Chunk c{};
  if (valid) std::memcpy(&c, p, sizeof c);
  return c;
}

inline Chunk load_shared_input(const void* p, bool valid) { return load_weights(p, valid); }

}  // namespace gpk
