// race | grid=2 block=64 n=128 | a block reads in place what the next one writes
__global__ void f(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef REPAIRED
  float next = 0;
#else
  float next = i + 1 < n ? x[i + 1] : 0;  // BUG
  __syncthreads();
#endif
  x[i] = next + 1;  // BUG
}
