// deadlock | grid=1 block=64 n=64 | the barrier waits for more threads than come
__global__ void f(float* x, int n) {
  x[threadIdx.x] = 1;
#ifdef REPAIRED
  asm volatile("bar.sync 1, 64;" ::: "memory");
#else
  asm volatile("bar.sync 1, 96;" ::: "memory");  // BUG
#endif
  x[threadIdx.x] += 1;
}
