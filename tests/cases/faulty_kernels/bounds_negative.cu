// out of bounds | grid=1 block=64 n=64 | the left neighbour of the first element
__global__ void f(float* x, int n) {
  int i = threadIdx.x;
#ifdef REPAIRED
  float left = i > 0 ? x[i - 1] : 0;
#else
  float left = x[i - 1];  // BUG
#endif
  __syncthreads();
  x[i] = left;
}
