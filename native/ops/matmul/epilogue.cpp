#include "ops/matmul/epilogue.h"

#include "base/text.h"

namespace gpk::ops {

const char* name(Activation activation) {
  switch (activation) {
    case Activation::kRelu: return "relu";
    case Activation::kGelu: return "gelu";
    case Activation::kSilu: return "silu";
    case Activation::kGeluErf: return "gelu_erf";
    default: return "none";
  }
}

namespace gemm {

std::string epilogue_text(unsigned flags) {
  std::string text;
  const auto add = [&](const char* part) { text += text.empty() ? part : cat("+", part); };
  if ((flags & kEpilogueAlpha) != 0) add("alpha");
  if ((flags & kEpilogueScales) != 0) add("scales");
  if ((flags & kEpilogueBias) != 0) add("bias");
  if (activation_of(flags) != Activation::kNone) add(name(activation_of(flags)));
  if ((flags & kEpilogueResidual) != 0) add("residual");
  return text.empty() ? "none" : text;
}

}  // namespace gemm
}  // namespace gpk::ops
