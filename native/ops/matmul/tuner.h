// Measures the plans of a product and remembers the fastest.
#pragma once

#include <vector>

#include "ops/matmul/tuning.h"

namespace gpk::ops {

struct MeasuredPlan {
  MatmulPlan plan;
  double us = 0.0;
};

// Runs every candidate on the current stream, in turn and several times, on copies; stores the
// choice, and makes the product by it once. cuBLASLt is taken only where it is faster than our own
// by more than one percent. Fastest first; empty for products that no one plan can make (their
// parts are tuned when they run). CUDA only; CaptureError while capturing.
std::vector<MeasuredPlan> tune_product(const Product& product, const char* op);

}  // namespace gpk::ops
