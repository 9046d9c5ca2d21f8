// race | grid=2 block=32 n=64 | the flag may be seen before the data
__global__ void f(float* x, int n) {
  volatile int* flag = (volatile int*)(x + 32);
  int t = threadIdx.x;
  if (blockIdx.x == 0) {
    x[t] = t;
#ifdef REPAIRED
    __threadfence();
#endif
    __syncwarp();
    if (t == 0) *flag = 7;
  } else {
    while (*flag != 7) {
    }
    __threadfence();
    if (t < 16) x[33 + t] = x[t];  // BUG
  }
}
