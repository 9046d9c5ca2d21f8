// race | grid=3 block=32 n=2 | a lock that orders nothing
__global__ void f(float* x, int n) {
  int* lock = (int*)(x + 1);
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
#ifdef REPAIRED
    __threadfence();
#endif
    x[0] += 1;  // BUG
#ifdef REPAIRED
    __threadfence();
#endif
    atomicExch(lock, 0);
  }
}
