// divergent barrier, deadlock | grid=1 block=64 n=64 | only some lanes of a warp reach the barrier
__global__ void f(float* x, int n) {
  int t = threadIdx.x;
#ifdef REPAIRED
  __syncthreads();
#else
  if (t < 48) __syncthreads();  // BUG
#endif
  x[t] = t;
}
