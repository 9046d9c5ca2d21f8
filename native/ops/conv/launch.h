// Kernels of convolutions on a GPU.
#pragma once

#include "ops/conv/plan.h"

namespace gpk::ops::conv {

// A checked call with images [batch, channels, h, w]; rows of x, out and residual are contiguous,
// and w and bias are. Nothing is empty.
struct ConvCall {
  const char* op;
  ConvDesc desc;
  Array x;
  Array w;
  std::optional<Array> bias;
  std::optional<Array> residual;
  Activation activation;
  Array out;
};

void launch_mma(const ConvCall& call, const ConvPlan& plan);
void launch_direct(const ConvCall& call, const ConvPlan& plan);

kernels::ConvArgs args_of(const ConvCall& call);

}  // namespace gpk::ops::conv
