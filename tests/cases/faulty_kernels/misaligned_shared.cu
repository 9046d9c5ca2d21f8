// misaligned | grid=1 block=32 n=64 | a double among floats
__global__ void f(float* x, int n) {
  __shared__ alignas(16) float s[64];
  int t = threadIdx.x;
#ifdef REPAIRED
  double* d = (double*)(s + 2);
#else
  double* d = (double*)(s + 1);
#endif
  if (t == 0) d[0] = x[0];  // BUG
  __syncthreads();
  x[t] = *(int*)(s + 3) != 0;
}
