// race | grid=4 block=1 n=16 | the last block adds sums that are not yet visible
__global__ void f(float* x, int n) {
  int* count = (int*)(x + 8);
  x[blockIdx.x] = blockIdx.x;
#ifdef REPAIRED
  __threadfence();
#endif
  if (atomicAdd(count, 1) == gridDim.x - 1) {
    __threadfence();
    float sum = 0;
    for (int b = 0; b < gridDim.x; ++b) sum += x[b];  // BUG
    x[9] = sum;
  }
}
