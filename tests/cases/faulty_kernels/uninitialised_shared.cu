// uninitialised | grid=1 block=64 n=64 | a histogram that nobody has cleared
__global__ void f(float* x, int n) {
  __shared__ int bins[4];
  int t = threadIdx.x;
#ifdef REPAIRED
  if (t < 4) bins[t] = 0;
#endif
  __syncthreads();
  atomicAdd(&bins[t % 4], 1);  // BUG
  __syncthreads();
  if (t < 4) x[t] = bins[t];
}
