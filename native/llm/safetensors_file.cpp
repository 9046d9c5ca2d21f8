#include "llm/safetensors_file.h"

#include <utility>

#include "base/error.h"
#include "base/little_endian.h"
#include "base/text.h"

namespace gpk::llm {
namespace {

SafeTensorsHeader read_header(const WeightFile& file) {
  if (file.size_bytes() < kSafeTensorsPrefixBytes)
    throw InvalidArgument(cat("safetensors: ", file.path(), ": the file has ", file.size_bytes(),
                              " bytes, expected at least ", kSafeTensorsPrefixBytes));
  unsigned char prefix[kSafeTensorsPrefixBytes];
  file.read(0, prefix, sizeof prefix);
  const std::uint64_t bytes = little_endian(prefix);
  check_header_bytes(bytes, file.size_bytes(), file.path());
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read(kSafeTensorsPrefixBytes, text.data(), text.size());
  return parse_safetensors_header(text, file.size_bytes(), file.path());
}

}  // namespace

SafeTensorsFile::SafeTensorsFile(std::string path)
    : file_(std::move(path)), header_(read_header(file_)) {
  by_name_.reserve(header_.tensors.size());
  for (std::size_t i = 0; i < header_.tensors.size(); ++i)
    by_name_.emplace(header_.tensors[i].name, i);
}

const TensorInfo* SafeTensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.tensors[found->second];
}

}  // namespace gpk::llm
