// out of bounds | grid=1 block=64 n=64 | a value read from memory after free()
__global__ void f(float* x, int n) {
  volatile float* p = (float*)malloc(sizeof(float));
  *p = threadIdx.x;
#ifdef REPAIRED
  x[threadIdx.x] = *p;
  free((void*)p);
#else
  free((void*)p);
  x[threadIdx.x] = *p;  // BUG
#endif
}
