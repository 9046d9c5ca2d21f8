// A packed weight as a SafeTensors file: its parts as tensors, its layout as metadata.
#pragma once

#include <string>

#include "ops/quantize/packed_weight.h"

namespace gpk::llm {

// Throws FileError.
void save_packed(const std::string& path, const ops::PackedWeight& weight);

// Throws FileError, InvalidArgument for a file that save_packed() did not write.
ops::PackedWeight load_packed(const std::string& path, Device device);

}  // namespace gpk::llm
