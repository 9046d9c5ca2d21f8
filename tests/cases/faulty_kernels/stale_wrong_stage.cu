// stale read | grid=1 block=64 n=128 | waits for the mbarrier of another stage
#define SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
#define INIT(b, n) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(SHARED(b)), "r"(n))
#define EXPECT(b, n) asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(SHARED(b)), "r"(n))
#define LOAD(s, g, n, b) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(SHARED(s)), "l"(g), "r"(n), "r"(SHARED(b)) : "memory")
#define WAIT(b, p) asm volatile("{ .reg .pred P; W: mbarrier.try_wait.parity.shared.b64 P, [%0], %1; @!P bra W; }" ::"r"(SHARED(b)), "r"(p) : "memory")
__global__ void f(float* x, int n) {
  __shared__ alignas(16) float s[2][64];
  __shared__ unsigned long long full[2];
  int t = threadIdx.x;
  if (t < 2) INIT(&full[t], 1);
  __syncthreads();
  if (t == 0) {
    for (int k = 0; k < 2; ++k) {
      EXPECT(&full[k], 256);
      LOAD(s[k], x + 64 * k, 256, &full[k]);
    }
  }
#ifdef REPAIRED
  WAIT(&full[1], 0);
#else
  WAIT(&full[0], 0);
#endif
  __syncthreads();
  x[64 + t] = s[1][63 - t];  // BUG
}
