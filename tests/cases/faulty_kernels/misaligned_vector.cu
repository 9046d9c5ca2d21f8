// misaligned | grid=1 block=4 n=64 | a float4 that starts at element 1
__global__ void f(float* x, int n) {
#ifdef REPAIRED
  float4* v = (float4*)x;
#else
  float4* v = (float4*)(x + 1);
#endif
  v[threadIdx.x] = make_float4(1, 2, 3, 4);  // BUG
}
