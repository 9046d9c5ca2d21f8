// One SafeTensors file: its header, checked, and its bytes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/safetensors_header.h"
#include "llm/weight_file.h"

namespace gpk::llm {

// Thread safe.
class SafeTensorsFile {
 public:
  // Reads and checks the header. Throws FileError, InvalidArgument.
  explicit SafeTensorsFile(std::string path);

  [[nodiscard]] const WeightFile& file() const noexcept { return file_; }
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const noexcept { return header_.tensors; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept {
    return header_.metadata;
  }
  // nullptr: none of that name.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;

 private:
  WeightFile file_;
  SafeTensorsHeader header_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // positions in tensors()
};

}  // namespace gpk::llm
