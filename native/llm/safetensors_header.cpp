#include "llm/safetensors_header.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace gpk::llm {
namespace {

constexpr StoredType kStoredTypes[] = {
    {"BOOL", 8, DType::kBool},          {"F4", 4, DType::kFloat4E2M1FN},
    {"F6_E2M3", 6, std::nullopt},       {"F6_E3M2", 6, std::nullopt},
    {"U8", 8, DType::kUInt8},           {"I8", 8, DType::kInt8},
    {"F8_E5M2", 8, DType::kFloat8E5M2}, {"F8_E4M3", 8, DType::kFloat8E4M3FN},
    {"F8_E8M0", 8, std::nullopt},       {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt},   {"I16", 16, DType::kInt16},
    {"U16", 16, DType::kUInt16},        {"F16", 16, DType::kFloat16},
    {"BF16", 16, DType::kBFloat16},     {"I32", 32, DType::kInt32},
    {"U32", 32, DType::kUInt32},        {"F32", 32, DType::kFloat32},
    {"C64", 64, DType::kComplex64},     {"F64", 64, DType::kFloat64},
    {"I64", 64, DType::kInt64},         {"U64", 64, DType::kUInt64},
};

constexpr std::string_view kMetadata = "__metadata__";

// The entry of one tensor.
class EntryReader {
 public:
  EntryReader(const std::string& file, const std::string& name, const Json& entry)
      : file_(file), name_(name), entry_(entry) {}

  // `data_bytes`: of all tensors; `data_offset`: where they start in the file.
  TensorInfo read(std::uint64_t data_bytes, std::uint64_t data_offset) const {
    if (entry_.members() == nullptr)
      fail(cat("is ", to_string(entry_.kind()), ", expected an object"));
    TensorInfo tensor;
    tensor.name = name_;
    tensor.stored_type = dtype();
    tensor.shape = shape();
    const auto [begin, end] = offsets();
    if (begin > end || end > data_bytes)
      fail(cat("has data_offsets [", begin, ", ", end, "], expected an increasing pair up to ",
               data_bytes, ", the bytes of the data"));
    tensor.offset = data_offset + begin;
    tensor.size_bytes = end - begin;
    const std::uint64_t num_elems = count(tensor.shape);
    if (const StoredType* type = find_stored_type(tensor.stored_type)) {
      tensor.dtype = type->dtype;
      check_size(tensor, *type, num_elems);
    }
    return tensor;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw InvalidArgument(
        cat("safetensors: ", file_, ": tensor ", quoted_name(name_), " ", problem));
  }

  const Json& field(const char* key) const {
    const Json* value = entry_.find(key);
    if (value == nullptr) fail(cat("has no ", key));
    return *value;
  }

  std::string dtype() const {
    const Json& value = field("dtype");
    if (value.string() == nullptr)
      fail(cat("has ", to_string(value.kind()), " as dtype, expected a string"));
    return *value.string();
  }

  const Json::Items& list(const char* key) const {
    const Json& value = field(key);
    if (value.items() == nullptr)
      fail(cat("has ", to_string(value.kind()), " as ", key, ", expected an array"));
    return *value.items();
  }

  Dims shape() const {
    const Json::Items& items = list("shape");
    if (items.size() > static_cast<std::size_t>(kMaxRank))
      fail(cat("has ", items.size(), " dimensions, expected at most ", kMaxRank));
    Dims result = Dims::filled(static_cast<int>(items.size()), 0);
    for (int i = 0; i < result.size(); ++i) {
      const auto size = items[static_cast<std::size_t>(i)].integer();
      if (!size || *size < 0)
        fail(cat("has a shape whose size ", i, " is not an integer from 0 to 2**63 - 1"));
      result[i] = *size;
    }
    return result;
  }

  std::pair<std::uint64_t, std::uint64_t> offsets() const {
    const Json::Items& items = list("data_offsets");
    if (items.size() != 2) fail(cat("has ", items.size(), " data_offsets, expected 2"));
    const auto begin = items[0].unsigned_integer();
    const auto end = items[1].unsigned_integer();
    if (!begin || !end) fail("has data_offsets that are not integers from 0 to 2**64 - 1");
    return {*begin, *end};
  }

  // Sizes of 0 do not hide a product of the others that overflows: strides are computed from it.
  std::uint64_t count(const Dims& shape) const {
    std::uint64_t product = 1;
    bool empty = false;
    for (const std::int64_t size : shape) {
      if (size == 0) {
        empty = true;
        continue;
      }
      constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
      if (product > kMax / static_cast<std::uint64_t>(size))
        fail(cat("has shape ", to_string(shape), ", more than 2**63 - 1 elements"));
      product *= static_cast<std::uint64_t>(size);
    }
    return empty ? 0 : product;
  }

  void check_size(const TensorInfo& tensor, const StoredType& type, std::uint64_t num_elems) const {
    const std::uint64_t max_elems = std::numeric_limits<std::uint64_t>::max() / type.bits;
    const bool fits = num_elems <= max_elems && num_elems * type.bits % 8 == 0;
    if (fits && num_elems * type.bits / 8 == tensor.size_bytes) return;
    const std::string expected =
        fits ? cat(num_elems * type.bits / 8, " bytes") : std::string("whole bytes below 2**61");
    fail(cat("of shape ", to_string(tensor.shape), " and dtype ", type.name, " has ",
             tensor.size_bytes, " bytes, expected ", expected));
  }

  const std::string& file_;
  const std::string& name_;
  const Json& entry_;
};

std::map<std::string, std::string> read_metadata(const Json& value, const std::string& file) {
  const auto fail = [&](const std::string& problem) {
    throw InvalidArgument(cat("safetensors: ", file, ": ", kMetadata, " ", problem));
  };
  std::map<std::string, std::string> metadata;
  if (value.members() == nullptr)
    fail(cat("is ", to_string(value.kind()), ", expected an object of strings"));
  for (const auto& [name, text] : *value.members()) {
    if (text.string() == nullptr)
      fail(cat("has ", to_string(text.kind()), " for ", quoted_name(name), ", expected a string"));
    metadata.emplace(name, *text.string());
  }
  return metadata;
}

// The tensors, sorted, are the data: each begins where the one before ends.
void check_layout(const std::vector<TensorInfo>& tensors, std::uint64_t data_offset,
                  std::uint64_t file_bytes, const std::string& file) {
  std::uint64_t at = data_offset;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset != at)
      throw InvalidArgument(
          cat("safetensors: ", file, ": tensor ", quoted_name(tensor.name), " begins at byte ",
              tensor.offset - data_offset, " of the data, expected ", at - data_offset,
              tensor.offset < at ? ": it overlaps another" : ": there is a hole"));
    at += tensor.size_bytes;
  }
  if (at != file_bytes)
    throw InvalidArgument(cat("safetensors: ", file, ": the tensors end at byte ", at,
                              " of the file, expected its end at ", file_bytes));
}

}  // namespace

std::string quoted_name(std::string_view name) {
  constexpr std::size_t kMaxBytes = 200;
  std::string text = shorten(name, kMaxBytes);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  return cat("'", text, "'");
}

const StoredType* find_stored_type(std::string_view name) noexcept {
  const auto* found = std::find_if(std::begin(kStoredTypes), std::end(kStoredTypes),
                                   [&](const StoredType& type) { return name == type.name; });
  return found == std::end(kStoredTypes) ? nullptr : found;
}

const StoredType& stored_type_of(DType dtype, const std::string& what) {
  for (const StoredType& type : kStoredTypes)
    if (type.dtype == dtype) return type;
  throw InvalidArgument(cat(what, " has dtype ", name(dtype), ", which SafeTensors does not have"));
}

DType loadable_dtype(const TensorInfo& tensor, const std::string& file) {
  if (tensor.dtype) return *tensor.dtype;
  std::string known;
  for (const StoredType& type : kStoredTypes)
    if (type.dtype) known += cat(known.empty() ? "" : ", ", type.name);
  throw InvalidArgument(cat("safetensors: ", file, ": tensor ", quoted_name(tensor.name),
                            " has dtype ", quoted_name(tensor.stored_type),
                            ", which cannot be loaded; expected one of ", known));
}

void check_header_bytes(std::uint64_t header_bytes, std::uint64_t file_bytes,
                        const std::string& file) {
  const std::uint64_t available = file_bytes - kSafeTensorsPrefixBytes;
  if (header_bytes > kSafeTensorsMaxHeaderBytes)
    throw InvalidArgument(cat("safetensors: ", file, ": the header has ", header_bytes,
                              " bytes, expected at most ", kSafeTensorsMaxHeaderBytes));
  if (header_bytes > available)
    throw InvalidArgument(cat("safetensors: ", file, ": the header has ", header_bytes,
                              " bytes, expected at most ", available,
                              ", what the file has after its length"));
}

SafeTensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t file_bytes,
                                           const std::string& file) {
  check_header_bytes(text.size(), file_bytes, file);
  if (!text.starts_with('{'))
    throw InvalidArgument(cat("safetensors: ", file, ": the header does not begin with '{'"));
  const Json object = parse_json(text, cat("safetensors: ", file, ": header"));
  const std::uint64_t data_offset = kSafeTensorsPrefixBytes + text.size();
  SafeTensorsHeader header;
  for (const auto& [name, entry] : *object.members()) {
    if (name == kMetadata)
      header.metadata = read_metadata(entry, file);
    else
      header.tensors.push_back(
          EntryReader(file, name, entry).read(file_bytes - data_offset, data_offset));
  }
  // An empty tensor goes before the one that begins at its offset.
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const TensorInfo& a, const TensorInfo& b) {
                     return std::pair(a.offset, a.size_bytes) < std::pair(b.offset, b.size_bytes);
                   });
  check_layout(header.tensors, data_offset, file_bytes, file);
  return header;
}

}  // namespace gpk::llm
