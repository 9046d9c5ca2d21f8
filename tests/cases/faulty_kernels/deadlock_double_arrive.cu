// deadlock | grid=1 block=64 n=64 | one arrival too many ends the next phase as well
#define SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
#define INIT(b, n) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(SHARED(b)), "r"(n))
#define ARRIVE(b) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(SHARED(b)) : "memory")
#define WAIT(b, p) asm volatile("{ .reg .pred P; W: mbarrier.try_wait.parity.shared.b64 P, [%0], %1; @!P bra W; }" ::"r"(SHARED(b)), "r"(p) : "memory")
__global__ void f(float* x, int n) {
  __shared__ unsigned long long bar;
  if (threadIdx.x == 0) {
    INIT(&bar, 1);
    ARRIVE(&bar);
#ifndef REPAIRED
    ARRIVE(&bar);
#endif
  }
  __syncthreads();
  WAIT(&bar, 0);  // BUG
  x[threadIdx.x] = 1;
}
