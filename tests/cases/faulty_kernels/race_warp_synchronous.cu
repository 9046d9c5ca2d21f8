// race | grid=1 block=32 n=32 | lanes of a warp are not in lockstep
__global__ void f(float* x, int n) {
  __shared__ float s[32];
  int t = threadIdx.x;
  s[t] = x[t];
  __syncwarp();
  for (int half = 16; half > 0; half /= 2) {
    if (t < half) s[t] += s[t + half];  // BUG
#ifdef REPAIRED
    __syncwarp();
#endif
  }
  if (t == 0) x[0] = s[0];
}
