// stale read | grid=1 block=64 n=128 | waits for all groups but the one it needs
#define SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
#define COPY(s, g) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(SHARED(s)), "l"(g) : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
__global__ void f(float* x, int n) {
  __shared__ float s[2][64];
  int t = threadIdx.x;
  COPY(&s[0][t], &x[t]);
  COMMIT();
  COPY(&s[1][t], &x[64 + t]);
  COMMIT();
#ifdef REPAIRED
  WAIT_GROUP(0);
#else
  WAIT_GROUP(1);
#endif
  __syncthreads();
  x[t] = s[1][63 - t];  // BUG
}
