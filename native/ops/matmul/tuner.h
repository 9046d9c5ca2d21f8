// Measures the plans of a GEMM and remembers the fastest.
#pragma once

#include <vector>

#include "ops/matmul/tuning.h"

namespace gpk::ops::gemm {

struct MeasuredPlan {
  MatmulPlan plan;
  double us = 0.0;
};

// Runs every candidate on the current stream, in turn and several times, on copies; stores the
// choice, and runs the call by it once. cuBLASLt is taken only where it is faster than our own by
// more than one percent. Fastest first; empty for calls that no one plan can run (their parts are
// tuned when they run). CUDA only; CaptureError while capturing.
std::vector<MeasuredPlan> tune_gemm(const GemmCall& call, const char* op);

}  // namespace gpk::ops::gemm
