// uninitialised | grid=1 block=64 n=64 | the tail of a tile that the guard left out
__global__ void f(float* x, int n) {
  __shared__ float tile[64];
  int t = threadIdx.x;
#ifdef REPAIRED
  tile[t] = t < n - 4 ? x[t] : 0;
#else
  if (t < n - 4) tile[t] = x[t];
#endif
  __syncthreads();
  x[t] = tile[63 - t];  // BUG
}
