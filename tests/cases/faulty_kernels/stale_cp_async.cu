// stale read | grid=1 block=64 n=64 | cp.async that is not waited for
#define SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
#define COPY(s, g) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(SHARED(s)), "l"(g) : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
__global__ void f(float* x, int n) {
  __shared__ float s[64];
  int t = threadIdx.x;
  COPY(&s[t], &x[t]);
  COMMIT();
#ifdef REPAIRED
  WAIT_GROUP(0);
#endif
  __syncthreads();
  x[t] = s[63 - t];  // BUG
}
