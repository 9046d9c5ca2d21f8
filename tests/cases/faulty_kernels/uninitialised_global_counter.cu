// uninitialised | grid=4 block=64 n=64 empty=1 | blocks counted by a counter that starts anywhere
__global__ void f(float* x, int n) {
  unsigned* done = (unsigned*)x;
#ifdef REPAIRED
  if (threadIdx.x == 0 && blockIdx.x == 0) atomicExch(done, 0u);
#else
  if (threadIdx.x == 0) atomicAdd(done, 1u);  // BUG
#endif
}
