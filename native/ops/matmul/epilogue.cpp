#include "ops/matmul/epilogue.h"

namespace gpk::ops {

bool Epilogue::nothing() const { return epilogue_flags(*this) == 0; }

unsigned epilogue_flags(const Epilogue& epilogue) {
  unsigned flags = static_cast<unsigned>(epilogue.activation) << kEpilogueActivationShift;
  if (epilogue.scale_a || epilogue.scale_b) {
    flags |= kEpilogueScales;
  } else if (epilogue.alpha != 1.0f) {
    flags |= kEpilogueAlpha;
  }
  if (epilogue.bias) flags |= kEpilogueBias;
  if (epilogue.residual && epilogue.beta != 0.0f) flags |= kEpilogueResidual;
  return flags;
}

const char* name(Activation activation) {
  switch (activation) {
    case Activation::kRelu: return "relu";
    case Activation::kGelu: return "gelu";
    case Activation::kSilu: return "silu";
    default: return "none";
  }
}

EpilogueArgs make_epilogue_args(const Epilogue& epilogue, const EpilogueSteps& steps) {
  const auto pointer = [](const std::optional<Array>& array) {
    return array ? array->device_ptr() : cu::DevicePtr{0};
  };
  EpilogueArgs args;
  args.bias = pointer(epilogue.bias);
  args.residual = pointer(epilogue.residual);
  args.scale_a = pointer(epilogue.scale_a);
  args.scale_b = pointer(epilogue.scale_b);
  args.bias_step = steps.bias;
  args.scale_a_step = steps.scale_a;
  args.scale_b_step = steps.scale_b;
  args.residual_m = steps.residual_m;
  args.residual_n = steps.residual_n;
  args.residual_batch = steps.residual_batch;
  args.alpha = epilogue.alpha;
  args.beta = epilogue.beta;
  return args;
}

}  // namespace gpk::ops
