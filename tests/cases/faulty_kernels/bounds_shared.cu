// out of bounds | grid=1 block=64 n=64 | an array that is one element short
__global__ void f(float* x, int n) {
#ifdef REPAIRED
  __shared__ float s[65];
#else
  __shared__ float s[64];
#endif
  int t = threadIdx.x;
  s[t + 1] = x[t];  // BUG
  if (t == 0) s[0] = 0;
  __syncthreads();
  x[t] = s[t];
}
