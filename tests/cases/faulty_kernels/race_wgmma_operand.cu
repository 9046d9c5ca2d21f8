// race | grid=1 block=128 n=128 | an operand is overwritten while wgmma reads it
#define SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
#define PROXY_FENCE() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define MMA(d, a, b) asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory")
#define COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT_GROUP() asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")
__device__ unsigned long long matrix(void* p, unsigned stride) {
  return (SHARED(p) & 0x3ffff) >> 4 | (unsigned long long)(128 >> 4) << 16 | (unsigned long long)(stride >> 4) << 32;
}
__global__ void f(float* x, int n) {
  __shared__ alignas(128) unsigned short a[64 * 16], b[8 * 16];
  int t = threadIdx.x;
  float d[4] = {0, 0, 0, 0};
  for (int k = t; k < 64 * 16; k += 128) a[k] = 0x3c00;
  if (t < 128) b[t] = 0x3c00;
  PROXY_FENCE();
  __syncthreads();
  FENCE();
  MMA(d, matrix(a, 256), matrix(b, 256));  // BUG
  COMMIT();
#ifdef REPAIRED
  WAIT_GROUP();
  __syncthreads();
#endif
  b[t] = 0x4000;  // BUG
  WAIT_GROUP();
  x[t] = d[0] + d[1] + d[2] + d[3];
}
