#include "ops/matmul/tma_matrix.h"

#include <algorithm>

#include "plan/tensor_maps.h"

namespace gpk::ops::gemm {

int tma_type(DType dtype, bool tf32) {
  switch (dtype) {
    case DType::kFloat16: return cu::kTensorFloat16;
    case DType::kBFloat16: return cu::kTensorBFloat16;
    case DType::kFloat32: return tf32 ? cu::kTensorTf32 : cu::kTensorFloat32;
    case DType::kInt32: return cu::kTensorInt32;
    default: return cu::kTensorUInt8;
  }
}

bool walks_forward(std::int64_t pitch, const Dims& batch) {
  return pitch > 0 &&
         std::all_of(batch.begin(), batch.end(), [](std::int64_t step) { return step >= 0; });
}

cu::TensorMap tma_map(const TmaMatrix& x, int type, std::int64_t box_inner, std::int64_t box_outer,
                      std::int64_t swizzle_bytes) {
  TensorMapSpec spec;
  spec.address = x.array.device_ptr();
  spec.type = type;
  spec.element_bytes = static_cast<std::uint32_t>(itemsize(x.array.dtype()));
  const bool many = x.batches > 1 && x.batch_pitch != 0;
  spec.sizes[0] = static_cast<std::uint64_t>(x.inner);
  spec.sizes[1] = static_cast<std::uint64_t>(x.outer);
  spec.sizes[2] = many ? static_cast<std::uint64_t>(x.batches) : 1;
  spec.pitches[0] = static_cast<std::uint64_t>(x.pitch);
  spec.pitches[1] = static_cast<std::uint64_t>(many ? x.batch_pitch : x.pitch * x.outer);
  spec.box[0] = static_cast<std::uint32_t>(box_inner);
  spec.box[1] = static_cast<std::uint32_t>(box_outer);
  spec.swizzle_bytes = static_cast<std::uint32_t>(swizzle_bytes);
  return plan::tensor_map(spec);
}

}  // namespace gpk::ops::gemm
