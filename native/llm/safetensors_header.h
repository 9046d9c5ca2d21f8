// The header of a SafeTensors file: 8 bytes with its length (little endian), then a JSON object
// {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, "__metadata__": {...}},
// then the tensors' bytes, C order, little endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace gpk::llm {

inline constexpr std::size_t kSafeTensorsPrefixBytes = 8;
inline constexpr std::uint64_t kSafeTensorsMaxHeaderBytes = 100'000'000;

// A dtype of the format. Where we have no such dtype its tensors can be inspected, not loaded.
struct StoredType {
  const char* name;  // "BF16"
  unsigned bits;     // of one element
  std::optional<DType> dtype;
};

// "'name'" for a message: shortened, control characters as '?' (a NUL would end the message).
std::string quoted_name(std::string_view name);

// nullptr for a name the format does not have.
const StoredType* find_stored_type(std::string_view name) noexcept;
// Throws InvalidArgument, naming `what`, for dtypes that the format does not have.
const StoredType& stored_type_of(DType dtype, const std::string& what);

struct TensorInfo {
  std::string name;
  std::string stored_type;
  std::optional<DType> dtype;  // nothing: cannot be loaded
  Dims shape;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t size_bytes = 0;
};

// Throws InvalidArgument where the tensor cannot be loaded.
DType loadable_dtype(const TensorInfo& tensor, const std::string& file);

struct SafeTensorsHeader {
  std::vector<TensorInfo> tensors;  // by offset
  std::map<std::string, std::string> metadata;
};

// Checks the length of the header that a file's first 8 bytes give.
void check_header_bytes(std::uint64_t header_bytes, std::uint64_t file_bytes,
                        const std::string& file);

// From the header's text. `file_bytes` is the size of the whole file; `file` is for messages.
// Throws InvalidArgument that names the file, the tensor, what was given and what was expected,
// unless every rule holds: a JSON object without duplicate names, each tensor of a known rank with
// as many bytes as its shape and dtype need, and all tensors together filling the rest of the file
// without holes and without overlap.
SafeTensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t file_bytes,
                                           const std::string& file);

}  // namespace gpk::llm
