// 16-byte loads of operands: those that are read once, and those that all warps share. Tests on the
// host replace this file (tests/native/host_cuda).
#pragma once

namespace gpk {

struct Chunk {
  unsigned v[4];
};

// Weights are used once: leave the L1 to x. Zeros where `valid` is false.
__device__ __forceinline__ Chunk load_weights(const void* p, bool valid) {
  Chunk c;
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"
      "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
      "@p ld.global.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
      : "=r"(c.v[0]), "=r"(c.v[1]), "=r"(c.v[2]), "=r"(c.v[3])
      : "l"(p), "r"(static_cast<int>(valid)));
  return c;
}

// x: cached in the L1 for all warps of the SM.
__device__ __forceinline__ Chunk load_shared_input(const void* p, bool valid) {
  Chunk c;
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"
      "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
      "@p ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
      : "=r"(c.v[0]), "=r"(c.v[1]), "=r"(c.v[2]), "=r"(c.v[3])
      : "l"(p), "r"(static_cast<int>(valid)));
  return c;
}

}  // namespace gpk
