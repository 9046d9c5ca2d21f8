// use after exit | grid=2 block=32 n=64 | a block leaves while its neighbour reads its shared memory
#define SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
#define CLUSTER_SYNC() asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory")
__global__ void __cluster_dims__(2, 1, 1) f(float* x, int n) {
  __shared__ float s[32];
  int t = threadIdx.x;
  s[t] = blockIdx.x * 32 + t;
  CLUSTER_SYNC();
  float other;
  asm volatile("{ .reg .u32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.f32 %0, [a]; }" : "=f"(other) : "r"(SHARED(&s[t])), "r"(1 - blockIdx.x) : "memory");  // BUG
#ifdef REPAIRED
  CLUSTER_SYNC();
#endif
  x[blockIdx.x * 32 + t] = other;
}
