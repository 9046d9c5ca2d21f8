// One convolution by its sizes.
#pragma once

#include "ops/conv/conv.h"

namespace gpk::ops::conv {

// A sequence has h = 1.
struct ConvDesc {
  DType dtype = DType::kFloat32;
  bool transposed = false;
  bool tf32 = false;  // float32 only
  std::int64_t batch = 1;
  std::int64_t groups = 1;
  std::int64_t in_channels = 1;  // of a group
  std::int64_t out_channels = 1;
  std::int64_t in_h = 1, in_w = 1;
  std::int64_t out_h = 1, out_w = 1;
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t dilation_h = 1, dilation_w = 1;

  [[nodiscard]] std::int64_t taps() const { return kernel_h * kernel_w; }
};

// Checks all arguments of a call with `dims` spatial dimensions. Throws InvalidArgument.
ConvDesc check_conv(const Array& x, const Array& w, const ConvOptions& options, int dims,
                    bool transposed, const char* op);
Dims result_shape(const ConvDesc& desc, int dims);

// float16, bfloat16 or float32; else InvalidArgument (kType).
void check_dtype(const Array& x, const char* op);

}  // namespace gpk::ops::conv
