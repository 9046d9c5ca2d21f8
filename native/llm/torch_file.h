// A file that torch.save wrote (.pth, .pt, .bin): a ZIP archive of data.pkl, which says what the
// tensors are, and an entry of bytes for each storage. Read without Python's pickle: see pickle.h.
//
//   const TorchFile file("kokoro-v1_0.pth");
//   const auto arrays = file.load(file.names(), device, {.dtype = DType::kBFloat16});
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/array.h"
#include "llm/safetensors_header.h"
#include "llm/weight_file.h"
#include "llm/weight_loader.h"

namespace gpk::llm {

// A view of a storage.
struct TorchTensor {
  std::string name;         // keys of nested dicts and list positions, joined by dots
  std::size_t storage = 0;  // position in TorchFile::storages()
  std::int64_t offset = 0;  // in elements
  Dims shape;
  Dims strides;
};

// Thread safe.
class TorchFile {
 public:
  // Reads the directory and data.pkl. Throws FileError; InvalidArgument, starting with
  // "torch file: ", for what is no such archive (files of torch before 1.6 have another format),
  // for pickles that need more than tensors and containers, and for tensors beyond their storage.
  explicit TorchFile(std::string path);

  [[nodiscard]] const WeightFile& file() const noexcept { return file_; }
  // In the order of the pickle. A file that is one tensor has the name "".
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  [[nodiscard]] const std::vector<TorchTensor>& tensors() const noexcept { return tensors_; }
  // One-dimensional.
  [[nodiscard]] const std::vector<TensorInfo>& storages() const noexcept { return storages_; }
  // nullptr: none of that name.
  [[nodiscard]] const TorchTensor* find(std::string_view name) const;

  // See weight_loader.h. Tensors of one storage share memory, as they do in torch. Throws
  // InvalidArgument for names that are not there.
  [[nodiscard]] std::map<std::string, Array> load(std::span<const std::string> names, Device device,
                                                  const LoadOptions& options = {}) const;

 private:
  WeightFile file_;
  std::vector<TensorInfo> storages_;
  std::vector<TorchTensor> tensors_;
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // positions in tensors_
};

}  // namespace gpk::llm
