// missing fence | grid=1 block=64 n=64 | the async proxy does not see plain stores
#define SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
#define STORE(g, s, n) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(g), "r"(SHARED(s)), "r"(n) : "memory")
#define COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define WAIT_READ() asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")
#define PROXY_FENCE() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
__global__ void f(float* x, int n) {
  __shared__ alignas(16) float s[64];
  int t = threadIdx.x;
  s[t] = t;
#ifdef REPAIRED
  PROXY_FENCE();
#endif
  __syncthreads();
  if (t == 0) {
    STORE(x, s, 256);  // BUG
    COMMIT();
    WAIT_READ();
  }
}
