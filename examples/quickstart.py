"""Arrays and a custom CUDA C kernel in a few lines.

Runs on a GPU, and without one on CPU simulation: there the kernel's `reference` runs instead.
"""

import pygpukit as gp

# Arrays.
a = gp.zeros((1024, 1024))
b = gp.ones((1024, 1024))
c = gp.add(a, b)
print(c, "first element", c.to_numpy()[0, 0])

# A kernel. Arguments are matched by the names of the CUDA signature; the grid covers the array.
SOURCE = """
extern "C" __global__ void scale(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
"""


def scale_on_cpu(x, factor, n):
    x.reshape(-1)[:n] *= factor


kernel = gp.jit(SOURCE, func="scale", reference=scale_on_cpu)
x = gp.ones(1_000_000)
kernel(x, factor=0.5, n=x.size)
result = x.to_numpy()
print(x, "first element", result[0])

if not (result == 0.5).all():
    raise SystemExit("quickstart: the kernel's result is wrong")
