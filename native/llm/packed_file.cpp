#include "llm/packed_file.h"

#include <charconv>
#include <vector>

#include "base/error.h"
#include "base/file_error.h"
#include "base/text.h"
#include "llm/safetensors_writer.h"
#include "llm/weight_set.h"

namespace gpk::llm {
namespace {

constexpr const char* kOp = "PackedWeight.load";

// Errors of files start with `op`.
template <class Run>
auto with_op(const char* op, const Run& run) {
  try {
    return run();
  } catch (const FileError& error) {
    throw FileError(op, error.code(), error.path());
  }
}

std::string shape_text(const Dims& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += cat(text.empty() ? "" : ",", size);
  return text;
}

class Metadata {
 public:
  Metadata(const std::string& path, std::map<std::string, std::string> fields)
      : path_(path), fields_(std::move(fields)) {}

  [[nodiscard]] const std::string& text(const std::string& field) const {
    const auto found = fields_.find(field);
    if (found == fields_.end())
      throw InvalidArgument(cat(kOp, ": ", path_, " has no metadata field ", field,
                                ", expected a file that PackedWeight.save wrote"));
    return found->second;
  }

  // "3" or "2,64".
  [[nodiscard]] std::vector<std::int64_t> integers(const std::string& field) const {
    const std::string& given = text(field);
    std::vector<std::int64_t> numbers;
    const char* at = given.data();
    const char* const end = at + given.size();
    while (at <= end) {
      std::int64_t number = -1;
      const auto [next, problem] = std::from_chars(at, end, number);
      if (problem != std::errc{} || number < 0 || (next != end && *next != ','))
        throw InvalidArgument(cat(kOp, ": ", path_, ": metadata field ", field, " is '", given,
                                  "', expected numbers with commas between them"));
      numbers.push_back(number);
      at = next + 1;
    }
    return numbers;
  }

 private:
  const std::string& path_;
  std::map<std::string, std::string> fields_;
};

}  // namespace

void save_packed(const std::string& path, const ops::PackedWeight& weight) {
  std::vector<std::pair<std::string, Array>> tensors;
  for (const auto& [part, array] : weight.parts())
    if (array != nullptr) tensors.emplace_back(part, *array);
  const std::map<std::string, std::string> metadata{{"format", name(weight.layout.format)},
                                                    {"group", cat(weight.layout.group)},
                                                    {"block", weight.layout.blocks ? "1" : "0"},
                                                    {"shape", shape_text(weight.shape)},
                                                    {"dtype", name(weight.dtype)}};
  with_op("PackedWeight.save", [&] { save_safetensors(path, tensors, metadata); });
}

ops::PackedWeight load_packed(const std::string& path, Device device) {
  const auto files = with_op(kOp, [&] { return WeightSet::open_file(path); });
  const Metadata metadata(path, files->metadata());
  const auto part = [&](const char* tensor) -> std::optional<Array> {
    if (!files->contains(tensor)) return std::nullopt;
    return files->load_one(tensor, device);
  };
  if (!files->contains("values"))
    throw InvalidArgument(cat(kOp, ": ", path,
                              " has no tensor values, expected a file that PackedWeight.save "
                              "wrote"));
  const std::optional<DType> dtype = dtype_from_name(metadata.text("dtype"));
  if (!dtype)
    throw InvalidArgument(cat(kOp, ": ", path, ": dtype is '", metadata.text("dtype"),
                              "', expected float16, bfloat16 or float32"));
  const std::optional<Array> zero_points = part("zero_points");
  const std::vector<std::int64_t> shape = metadata.integers("shape");
  ops::PackedWeight weight{make_layout(ops::quant_format_named(metadata.text("format"), kOp),
                                       metadata.integers("group").front(), zero_points.has_value(),
                                       metadata.text("block") == "1", kOp),
                           Dims(std::span<const std::int64_t>(shape)),
                           *dtype,
                           *part("values"),
                           part("scales"),
                           zero_points,
                           part("tensor_scale"),
                           part("metadata")};
  check_packed(weight, kOp);
  return weight;
}

}  // namespace gpk::llm
