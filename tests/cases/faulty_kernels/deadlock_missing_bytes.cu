// deadlock | grid=1 block=64 n=64 | fewer bytes are copied than were announced
#define SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
#define INIT(b, n) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(SHARED(b)), "r"(n))
#define EXPECT(b, n) asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(SHARED(b)), "r"(n))
#define LOAD(s, g, n, b) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(SHARED(s)), "l"(g), "r"(n), "r"(SHARED(b)) : "memory")
#define WAIT(b, p) asm volatile("{ .reg .pred P; W: mbarrier.try_wait.parity.shared.b64 P, [%0], %1; @!P bra W; }" ::"r"(SHARED(b)), "r"(p) : "memory")
__global__ void f(float* x, int n) {
  __shared__ alignas(16) float s[64];
  __shared__ unsigned long long bar;
  if (threadIdx.x == 0) {
    INIT(&bar, 1);
    EXPECT(&bar, 256);
#ifdef REPAIRED
    LOAD(s, x, 256, &bar);
#else
    LOAD(s, x, 128, &bar);
#endif
  }
  __syncthreads();
  WAIT(&bar, 0);  // BUG
  x[threadIdx.x] = s[threadIdx.x];
}
