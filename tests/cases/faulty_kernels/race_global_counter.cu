// race | grid=2 block=32 n=64 | an increment that is not atomic
__global__ void f(float* x, int n) {
#ifdef REPAIRED
  atomicAdd(x, 1.0f);
#else
  x[0] += threadIdx.x + 1;  // BUG
#endif
}
