// out of bounds | grid=1 block=128 n=64 | <= where < is meant
__global__ void f(float* x, int n) {
  int i = threadIdx.x;
#ifdef REPAIRED
  if (i < n) x[i] = 1;
#else
  if (i <= n) x[i] = 1;  // BUG
#endif
}
