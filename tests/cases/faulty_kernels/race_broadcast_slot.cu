// race | grid=1 block=64 n=64 | one slot for all results, read before everyone has passed
__global__ void f(float* x, int n) {
  __shared__ float slot;
  int t = threadIdx.x;
  for (int k = 0; k < 2; ++k) {
    if (t == 33 * k) slot = x[k] + k;  // BUG
    __syncthreads();
    float seen = slot;  // BUG
#ifdef REPAIRED
    __syncthreads();
#endif
    if (t == 2 + k) x[t] = seen;
  }
}
