// Matrices as TMA sees them: what the engines of wgmma make tensor maps from.
#pragma once

#include "core/array.h"
#include "core/driver_api.h"

namespace gpk::ops::gemm {

// The tensor map type of a dtype; float32 may be rounded to TF32 on its way.
int tma_type(DType dtype, bool tf32 = false);

// A matrix whose inner dimension is contiguous, once or for each batch. Strides in elements.
struct TmaMatrix {
  const Array& array;
  std::int64_t inner, outer, pitch;
  std::int64_t batches, batch_pitch;  // pitch 0: one for all
};

// Whether TMA can step so from row to row, and from batch to batch: never backwards, and a pitch of
// 0 only between batches.
bool walks_forward(std::int64_t pitch, const Dims& batch);

// Boxes of box_inner x box_outer elements of one batch.
cu::TensorMap tma_map(const TmaMatrix& x, int type, std::int64_t box_inner, std::int64_t box_outer,
                      std::int64_t swizzle_bytes);

}  // namespace gpk::ops::gemm
