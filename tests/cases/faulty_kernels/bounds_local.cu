// out of bounds | grid=1 block=32 n=32 | an index past a local array
__global__ void f(float* x, int n) {
  int t = threadIdx.x;
  float a[4] = {1, 2, 3, 4};
#ifdef REPAIRED
  a[t % 4] = x[t];
#else
  a[t % 5] = x[t];  // BUG
#endif
  x[t] = a[(t + n) % 4];
}
