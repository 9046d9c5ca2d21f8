"""More of gp.jit: types, launch options, a pre-bound launch, C++ templates, compile errors.

Needs a GPU and NVRTC; prints what is missing and exits otherwise.
"""

import numpy as np

import pygpukit as gp

SAXPY = """
extern "C" __global__ void saxpy(float* y, const float* x, float a, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
"""

# One source, several kernels: a template, and one that uses shared memory.
MODULE = """
template <typename T>
__global__ void fill(T* x, T value, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}

extern "C" __global__ void block_sum(const float* x, float* sums, int n) {
  extern __shared__ float part[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = i < n ? x[i] : 0.0f;
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}
"""


def check(what: str, ok: bool) -> None:
    print(("ok     " if ok else "WRONG  ") + what)
    if not ok:
        raise SystemExit(1)


def main() -> None:
    if not gp.empty(1).on_gpu:
        print("custom_kernel.py: needs a GPU; `python -m pygpukit` shows what was found")
        return
    if not gp.is_nvrtc_available():
        print("custom_kernel.py: needs NVRTC: pip install pygpukit[jit]")
        return
    rng = np.random.default_rng(0)
    host_x, host_y = rng.standard_normal((2, 100_000), dtype=np.float32)
    x, y = gp.from_numpy(host_x), gp.from_numpy(host_y)

    saxpy = gp.jit(SAXPY, "saxpy")
    print(saxpy, saxpy.attributes)
    saxpy(y, x, a=2.0, n=x.size)
    expected = host_y + 2.0 * host_x
    check("saxpy", np.allclose(y.to_numpy(), expected, rtol=1e-6, atol=1e-6))

    # Converted and checked once; each call only launches.
    launch = saxpy.bind(y, x, 1.0, x.size)
    for _ in range(3):
        launch()
    expected = expected + 3 * host_x
    check("pre-bound launch", np.allclose(y.to_numpy(), expected, rtol=1e-5, atol=1e-5))

    module = gp.RawModule(MODULE, name_expressions=["fill<double>"])
    z = gp.empty(1000, "float64")
    module.get_function("fill<double>")(z, 2.5, z.size)
    check("template", bool((z.to_numpy() == 2.5).all()))

    blocks = -(-x.size // 256)
    sums = gp.zeros(blocks)
    module.get_function("block_sum")(x, sums, x.size, grid=blocks, block=256, shared_mem=256 * 4)
    total = float(sums.to_numpy().sum(dtype=np.float64))
    check("shared memory", abs(total - float(host_x.sum(dtype=np.float64))) < 0.05)

    # Mistakes are reported before anything is launched.
    try:
        saxpy(y, x, a=2.0)
    except TypeError as error:
        print(f"a missing argument: {error}")
    try:
        gp.jit(SAXPY.replace("a * x[i]", "a * q[i]"), "saxpy")
    except gp.CompileError as error:
        print(f"a compile error, with the numbered source:\n{error}")


if __name__ == "__main__":
    main()
