// Tensor maps, encoded once per address, sizes, pitches and box.
#pragma once

#include "core/tensor_map.h"

namespace gpk::plan {

// encode_tensor_map(spec), cached per thread. A map is a pure function of its spec, so entries
// never go stale.
cu::TensorMap tensor_map(const TensorMapSpec& spec);

}  // namespace gpk::plan
