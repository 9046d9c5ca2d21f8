// Writes SafeTensors files.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/array.h"

namespace gpk::llm {

// Arrays of any device, by name, after the work submitted on them so far. The file appears complete
// or not at all: it is written beside `path` and renamed. The widest dtypes come first, so that
// every tensor is aligned; the header is padded with spaces to 8 bytes. Throws InvalidArgument for
// duplicate or reserved names, names that are not UTF-8, and dtypes that the format does not have;
// FileError.
void save_safetensors(const std::string& path,
                      const std::vector<std::pair<std::string, Array>>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace gpk::llm
