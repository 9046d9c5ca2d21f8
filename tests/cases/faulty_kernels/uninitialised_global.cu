// uninitialised | grid=2 block=64 n=128 empty=1 | a sum into memory that nobody has cleared
__global__ void f(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef REPAIRED
  x[i] = i;
#else
  x[i] += i;  // BUG
#endif
}
