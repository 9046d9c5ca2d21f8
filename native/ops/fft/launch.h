// A transform along one axis on a GPU.
#pragma once

#include <functional>

#include "core/array.h"
#include "ops/fft/passes.h"
#include "ops/fft/plan.h"

namespace gpk::ops::fft {

struct AxisTransform {
  FftKind kind = FftKind::kComplex;
  int axis = 0;
  std::int64_t n = 1;
  bool conj_in = false;   // of complex inputs
  bool conj_out = false;  // of complex outputs
  double scale = 1.0;
};

// Of `in`, cut or padded with zeros, to `out`, of the same precision; they may be the same array.
// Both have elements. `submit` gets the launches, in order.
void launch_axis(const Array& in, const Array& out, const AxisTransform& transform,
                 const FftLimits& limits, const char* op,
                 const std::function<void(FftLaunch&)>& submit = submit_to_gpu);

// Of a GPU; of an H200 for the CPU, so that plans can be looked at.
FftLimits limits_of(Device device);

}  // namespace gpk::ops::fft
