// race, uninitialised | grid=1 block=64 n=64 | a neighbour is read before it is written
__global__ void f(float* x, int n) {
  __shared__ float s[64];
  int t = threadIdx.x;
  s[t] = x[t];  // BUG
#ifdef REPAIRED
  __syncthreads();
#endif
  x[t] = s[63 - t];  // BUG
}
