// uninitialised | grid=1 block=64 n=192 empty=1 | reads one element further than it wrote
__global__ void f(float* x, int n) {
  int i = threadIdx.x;
  x[i] = i;
  __syncthreads();
#ifdef REPAIRED
  float next = i + 1 < 64 ? x[i + 1] : 0;
#else
  float next = x[i + 1];  // BUG
#endif
  x[128 + i] = next;
}
