// race | grid=1 block=64 n=64 | a counter is read while others still add
__global__ void f(float* x, int n) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);  // BUG
#ifdef REPAIRED
  __syncthreads();
#endif
  x[threadIdx.x] = count;  // BUG
}
