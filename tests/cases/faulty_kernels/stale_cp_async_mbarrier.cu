// stale read | grid=1 block=64 n=64 | the arrival does not wait for the copies of its thread
#define SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
#define INIT(b, n) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(SHARED(b)), "r"(n))
#define ARRIVE(b) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(SHARED(b)) : "memory")
#define COPY(s, g) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(SHARED(s)), "l"(g) : "memory")
#define ARRIVE_AFTER_COPIES(b) asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(SHARED(b)) : "memory")
#define WAIT(b, p) asm volatile("{ .reg .pred P; W: mbarrier.try_wait.parity.shared.b64 P, [%0], %1; @!P bra W; }" ::"r"(SHARED(b)), "r"(p) : "memory")
__global__ void f(float* x, int n) {
  __shared__ float s[64];
  __shared__ unsigned long long bar;
  int t = threadIdx.x;
  if (t == 0) INIT(&bar, 64);
  __syncthreads();
  COPY(&s[t], &x[t]);
#ifdef REPAIRED
  ARRIVE_AFTER_COPIES(&bar);
#else
  ARRIVE(&bar);
#endif
  WAIT(&bar, 0);
  x[t] = s[63 - t];  // BUG
}
