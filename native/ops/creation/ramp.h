// Evenly spaced numbers.
#pragma once

#include <complex>
#include <string>

#include "core/array.h"
#include "core/scalar.h"
#include "kernels/args/creation.h"
#include "ops/op.h"

namespace gpk::ops {

// start + i * step for i in [0, count). Integer dtypes: both are integers, and `start` must fit.
Array arange(std::int64_t count, const Scalar& start, const Scalar& step, DType dtype,
             Device device);

// `count` numbers from start to stop; the last is stop itself when `endpoint`, else one step less.
// Integer dtypes are rounded down. Throws InvalidArgument for complex numbers into a real dtype.
Array linspace(std::complex<double> start, std::complex<double> stop, std::int64_t count,
               bool endpoint, DType dtype, Device device);

namespace creation {

kernels::RealRamp plan_linspace(double start, double stop, std::int64_t count, bool endpoint);
std::string to_string(const kernels::RealRamp& ramp);

void enumerate_ramp(std::vector<jit::KernelSpec>& specs);

}  // namespace creation

}  // namespace gpk::ops
