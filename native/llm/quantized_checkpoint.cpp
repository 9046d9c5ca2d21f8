#include "llm/quantized_checkpoint.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "llm/json_fields.h"

namespace gpk::llm {
namespace {

using ops::QuantFormat;

float half_value(std::uint16_t bits) {
  const unsigned sign = static_cast<unsigned>(bits & 0x8000u) << 16;
  const unsigned rest = bits & 0x7fffu;
  if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // Exponent bias 15 against 127; a multiply normalises subnormals.
  const float value = std::bit_cast<float>(rest << 13) * 0x1p112f;
  return (sign != 0) ? -value : value;
}

// Bytes of a tensor, checked to be of one of the types.
struct Stored {
  const TensorInfo& info;
  std::vector<std::uint8_t> bytes;

  [[nodiscard]] std::vector<std::uint32_t> words() const {
    require(info.dtype == DType::kInt32, "int32");
    std::vector<std::uint32_t> all(bytes.size() / 4);
    std::memcpy(all.data(), bytes.data(), all.size() * 4);
    return all;
  }
  [[nodiscard]] std::vector<float> floats() const {
    std::vector<float> all(static_cast<std::size_t>(num_elements(info.shape, "load")));
    if (info.dtype == DType::kFloat32) {
      std::memcpy(all.data(), bytes.data(), all.size() * 4);
      return all;
    }
    require(info.dtype == DType::kFloat16 || info.dtype == DType::kBFloat16,
            "float32, float16 or bfloat16");
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, bytes.data() + 2 * i, 2);
      all[i] = info.dtype == DType::kFloat16
                   ? half_value(half)
                   : std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
    }
    return all;
  }
  void require(bool fits, const char* expected) const {
    if (!fits)
      throw InvalidArgument(
          cat("load: tensor ", info.name, " is ", info.stored_type, ", expected ", expected));
  }
  void require_shape(const Dims& shape) const {
    if (info.shape != shape)
      throw InvalidArgument(cat("load: tensor ", info.name, " has shape ", to_string(info.shape),
                                ", expected ", to_string(shape)));
  }
};

Stored read_tensor(const WeightSet& files, const std::string& name) {
  const TensorInfo& info = files.info(name);
  Stored stored{info, std::vector<std::uint8_t>(static_cast<std::size_t>(info.size_bytes))};
  files.file_of(name).file().read(info.offset, stored.bytes.data(), stored.bytes.size());
  return stored;
}

// "a.b.weight" to "a.b".
std::string module_of(const std::string& weight) {
  return weight.substr(0, weight.size() - std::string_view(".weight").size());
}

constexpr std::array kSuffixes = {".qweight",
                                  ".qzeros",
                                  ".scales",
                                  ".g_idx",
                                  ".weight_packed",
                                  ".weight_scale",
                                  ".weight_scale_inv",
                                  ".weight_zero_point",
                                  ".weight_shape",
                                  ".weight_g_idx",
                                  ".input_scale",
                                  ".weight.absmax",
                                  ".weight.quant_map",
                                  ".weight.nested_absmax",
                                  ".weight.nested_quant_map",
                                  ".weight.quant_state.bitsandbytes__nf4"};

constexpr const char* kNf4State = ".weight.quant_state.bitsandbytes__nf4";

Json read_state(const WeightSet& files, const std::string& name) {
  const Stored stored = read_tensor(files, name);
  return parse_json(std::string(stored.bytes.begin(), stored.bytes.end()), name);
}

// A part of a module, checked.
struct Module {
  const WeightSet& files;
  std::string name;
  std::int64_t n, k;

  [[nodiscard]] bool has(const char* part) const { return files.contains(name + part); }
  [[nodiscard]] Stored read(const char* part, const Dims& shape) const {
    Stored stored = read_tensor(files, name + part);
    stored.require_shape(shape);
    return stored;
  }
};

HostPacked convert_awq(const Module& m, const CheckpointFormat& f) {
  const std::int64_t groups = f.group == 0 ? 1 : ceil_div(m.k, f.group);
  return from_awq(m.read(".qweight", {m.k, m.n / 8}).words(),
                  m.read(".qzeros", {groups, m.n / 8}).words(),
                  m.read(".scales", {groups, m.n}).floats(), m.n, m.k, f.group);
}

// Groups must be consecutive k. A tensor of -1 alone was never set: there is no other order.
void check_group_order(const Module& m, const char* part, std::int64_t group) {
  if (!m.has(part)) return;
  const std::vector<std::uint32_t> order = m.read(part, {m.k}).words();
  constexpr std::uint32_t kUnset = 0xffffffffu;
  if (std::ranges::all_of(order, [](std::uint32_t index) { return index == kUnset; })) return;
  for (std::size_t l = 0; l < order.size(); ++l)
    if (order[l] != (group == 0 ? 0 : l / static_cast<std::size_t>(group)))
      throw InvalidArgument(cat("load: tensor ", m.name, part,
                                " has groups of k that are not consecutive, which are not read"));
}

HostPacked convert_gptq(const Module& m, const CheckpointFormat& f) {
  const std::int64_t groups = f.group == 0 ? 1 : ceil_div(m.k, f.group);
  const std::int64_t per_word = 32 / f.bits;
  check_group_order(m, ".g_idx", f.group);
  return from_gptq(m.read(".qweight", {m.k / per_word, m.n}).words(),
                   m.read(".qzeros", {groups, m.n / per_word}).words(),
                   m.read(".scales", {groups, m.n}).floats(), m.n, m.k, f.group, f.bits,
                   f.plain_zeros);
}

HostPacked convert_pack_quantized(const Module& m, const CheckpointFormat& f) {
  const std::int64_t groups = f.group == 0 ? 1 : ceil_div(m.k, f.group);
  const std::int64_t per_word = 32 / f.bits;
  if (f.ordered && !m.has(".weight_g_idx"))
    throw InvalidArgument(cat("load: there is no tensor ", m.name,
                              ".weight_g_idx, required by actorder in quantization_config"));
  check_group_order(m, ".weight_g_idx", f.group);
  std::vector<std::uint32_t> zeros;
  if (m.has(".weight_zero_point"))
    zeros = m.read(".weight_zero_point", {ceil_div(m.n, per_word), groups}).words();
  return from_pack_quantized(m.read(".weight_packed", {m.n, ceil_div(m.k, per_word)}).words(),
                             m.read(".weight_scale", {m.n, groups}).floats(), zeros, m.n, m.k,
                             f.group, f.bits);
}

HostPacked convert_rows(const Module& m, const char* scale_tensor) {
  const Stored values = m.read(".weight", {m.n, m.k});
  const bool fp8 = values.info.dtype == DType::kFloat8E4M3FN;
  values.require(fp8 || values.info.dtype == DType::kInt8, "float8_e4m3fn or int8");
  const Stored scales = read_tensor(m.files, m.name + scale_tensor);
  const std::vector<float> numbers = scales.floats();
  if (numbers.size() != 1) scales.require_shape({m.n, 1});
  return from_rows(values.bytes, numbers, m.n, m.k, fp8 ? QuantFormat::kFp8 : QuantFormat::kInt8);
}

HostPacked convert_fp8(const Module& m, const CheckpointFormat& f) {
  const char* const scale = m.has(".weight_scale_inv") ? ".weight_scale_inv" : ".weight_scale";
  if (!f.blocks) return convert_rows(m, scale);
  const Stored values = m.read(".weight", {m.n, m.k});
  values.require(values.info.dtype == DType::kFloat8E4M3FN, "float8_e4m3fn");
  const Dims blocks{ceil_div(m.n, 128), ceil_div(m.k, 128)};
  return from_fp8_blocks(values.bytes, m.read(scale, blocks).floats(), m.n, m.k);
}

HostPacked convert_nf4(const Module& m) {
  const Json state = read_state(m.files, m.name + kNf4State);
  const JsonFields fields(state);
  if (fields.integer("blocksize", 64) != 64)
    throw InvalidArgument(cat("load: tensor ", m.name, ".weight: blocksize is ",
                              fields.integer("blocksize", 64), ", expected 64"));
  if (m.k % 64 != 0)
    throw InvalidArgument(cat("load: tensor ", m.name, ".weight has rows of ", m.k,
                              " values, expected a multiple of 64"));
  const Stored values = m.read(".weight", {m.n * m.k / 2, 1});
  const Stored absmax = m.read(".weight.absmax", {m.n * m.k / 64});
  if (!m.has(".weight.nested_absmax")) return from_nf4(values.bytes, absmax.floats(), m.n, m.k);
  absmax.require(absmax.info.dtype == DType::kUInt8, "uint8");
  const std::int64_t block = fields.integer("nested_blocksize", 256);
  const auto offset = static_cast<float>(fields.number("nested_offset", 0.0));
  const std::vector<float> scales = nested_absmax(
      absmax.bytes, m.read(".weight.nested_quant_map", {256}).floats(),
      m.read(".weight.nested_absmax", {ceil_div(m.n * m.k / 64, block)}).floats(), block, offset);
  return from_nf4(values.bytes, scales, m.n, m.k);
}

}  // namespace

// [n, k] of a quantised module, from the shapes of its tensors.
std::optional<Dims> QuantizedCheckpoint::weight_shape(const std::string& module) const {
  const auto shape = [&](const char* part) { return files_.info(module + part).shape; };
  const std::int64_t per_word = 32 / format_.bits;
  const auto matrix = [&](const char* part) {
    if (shape(part).size() != 2)
      throw InvalidArgument(cat("load: tensor ", module, part, " has shape ",
                                to_string(shape(part)), ", expected two dimensions"));
    return shape(part);
  };
  const auto has = [&](const char* part) { return files_.contains(module + part); };
  switch (format_.method) {
    case CheckpointMethod::kAwq:
      if (!has(".qweight")) return std::nullopt;
      return Dims{matrix(".qweight")[1] * 8, matrix(".qweight")[0]};
    case CheckpointMethod::kGptq:
      if (!has(".qweight")) return std::nullopt;
      return Dims{matrix(".qweight")[1], matrix(".qweight")[0] * per_word};
    case CheckpointMethod::kPackQuantized:
      if (!has(".weight_packed")) return std::nullopt;
      if (has(".weight_shape")) {
        const Stored stored = read_tensor(files_, module + ".weight_shape");
        stored.require(stored.info.dtype == DType::kInt64 && stored.bytes.size() == 16,
                       "two int64");
        std::int64_t sizes[2];
        std::memcpy(sizes, stored.bytes.data(), sizeof sizes);
        return Dims{sizes[0], sizes[1]};
      }
      return Dims{matrix(".weight_packed")[0], matrix(".weight_packed")[1] * per_word};
    case CheckpointMethod::kRows:
    case CheckpointMethod::kFp8:
      if (!has(".weight_scale") && !has(".weight_scale_inv")) return std::nullopt;
      return matrix(".weight");
    case CheckpointMethod::kNf4: {
      if (!has(kNf4State)) return std::nullopt;
      const Json state = read_state(files_, module + kNf4State);
      const std::vector<double> sizes = JsonFields(state).numbers("shape");
      if (sizes.size() != 2)
        throw InvalidArgument(cat("load: tensor ", module, kNf4State, " has no shape of a matrix"));
      return Dims{static_cast<std::int64_t>(sizes[0]), static_cast<std::int64_t>(sizes[1])};
    }
  }
  return std::nullopt;
}

std::map<std::string, Dims> QuantizedCheckpoint::fold(const std::map<std::string, Dims>& shapes) {
  std::map<std::string, Dims> plain;
  std::set<std::string> modules;
  for (const auto& [name, shape] : shapes) {
    bool is_part = false;
    for (const char* suffix : kSuffixes) {
      if (!name.ends_with(suffix)) continue;
      modules.insert(name.substr(0, name.size() - std::string_view(suffix).size()));
      is_part = true;
      break;
    }
    if (!is_part) plain.emplace(name, shape);
  }
  for (const std::string& module : modules)
    if (const std::optional<Dims> shape = weight_shape(module)) {
      plain[module + ".weight"] = *shape;
      weights_.emplace(module + ".weight", *shape);
    }
  // What belongs to no quantised module stays, for the check of names to find.
  for (const auto& [name, shape] : shapes) {
    if (plain.contains(name)) continue;
    bool folded = false;
    for (const char* suffix : kSuffixes)
      folded = folded ||
               (name.ends_with(suffix) &&
                weights_.contains(name.substr(0, name.size() - std::string_view(suffix).size()) +
                                  ".weight"));
    if (!folded) plain.emplace(name, shape);
  }
  return plain;
}

HostPacked QuantizedCheckpoint::convert(const std::string& weight) const {
  const Dims& shape = weights_.at(weight);
  const Module module{files_, module_of(weight), shape[0], shape[1]};
  switch (format_.method) {
    case CheckpointMethod::kAwq: return convert_awq(module, format_);
    case CheckpointMethod::kGptq: return convert_gptq(module, format_);
    case CheckpointMethod::kPackQuantized: return convert_pack_quantized(module, format_);
    case CheckpointMethod::kRows: return convert_rows(module, ".weight_scale");
    case CheckpointMethod::kFp8: return convert_fp8(module, format_);
    case CheckpointMethod::kNf4: return convert_nf4(module);
  }
  return {};
}

}  // namespace gpk::llm
