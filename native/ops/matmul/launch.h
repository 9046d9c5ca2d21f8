// Products on a device, after all checks.
#pragma once

#include <vector>

#include "core/array.h"
#include "jit/builtin.h"

namespace gpk::ops {

// c[..., i, j] = sum over l of a[..., i, l] * b[..., l, j]: one dtype, one device, equal leading
// dimensions (stride 0 where broadcast), at least two dimensions each, c not empty and apart from
// a and b; any strides. CUDA only. `conjugate`: of a, which is complex.
void launch_matmul(const Array& a, const Array& b, const Array& c, bool conjugate, const char* op);

void enumerate_matmul_kernels(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops
