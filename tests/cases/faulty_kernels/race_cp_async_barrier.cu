// race, uninitialised | grid=1 block=64 n=64 | each thread waits for its own copies only
#define SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
#define COPY(s, g) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(SHARED(s)), "l"(g) : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
__global__ void f(float* x, int n) {
  __shared__ float s[64];
  int t = threadIdx.x;
  COPY(&s[t], &x[t]);  // BUG
  COMMIT();
  WAIT_GROUP(0);
#ifdef REPAIRED
  __syncthreads();
#endif
  float other = s[63 - t];  // BUG
  __syncthreads();
  x[t] = other;
}
