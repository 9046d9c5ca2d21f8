// uninitialised | grid=1 block=32 n=64 | only part of a local array is set
__global__ void f(float* x, int n) {
  int t = threadIdx.x;
  float a[8];
#ifdef REPAIRED
  for (int k = 0; k < 8; ++k) a[(k * n + k) % 8] = k;
#else
  for (int k = 0; k < 4; ++k) a[(k * n + k) % 4] = k;
#endif
  x[t] = a[t % 8];  // BUG
}
