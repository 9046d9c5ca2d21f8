// deadlock | grid=1 block=64 n=64 | two warps wait at different barriers
__global__ void f(float* x, int n) {
#ifdef REPAIRED
  asm volatile("bar.sync 1, 64;" ::: "memory");
#else
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1, 64;" ::: "memory");  // BUG
  } else {
    asm volatile("bar.sync 2, 64;" ::: "memory");  // BUG
  }
#endif
  x[threadIdx.x] = 1;
}
