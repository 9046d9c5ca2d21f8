// race | grid=1 block=64 n=256 | the tile is filled again while slow warps still read it
__global__ void f(float* x, int n) {
  __shared__ float tile[64];
  int t = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += 64) {
    tile[t] = x[k + t];  // BUG
    __syncthreads();
    sum += tile[(t + 32) % 64];  // BUG
#ifdef REPAIRED
    __syncthreads();
#endif
  }
  __syncthreads();
  x[t] = sum;
}
