#include "llm/checkpoint_format.h"

#include "base/error.h"
#include "base/text.h"
#include "llm/json_fields.h"

namespace gpk::llm {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw InvalidArgument(cat("load: quantization_config: ", text));
}

std::int64_t read_group(const JsonFields& fields, const char* field, std::int64_t otherwise) {
  const std::int64_t group = fields.integer(field, otherwise);
  if (group == -1) return 0;
  if (group != 32 && group != 64 && group != 128)
    refuse(cat(field, " is ", group, ", expected 32, 64, 128 or -1"));
  return group;
}

CheckpointFormat read_awq(const JsonFields& fields) {
  CheckpointFormat format{CheckpointMethod::kAwq};
  const std::string version = fields.text("version", "gemm");
  if (version != "gemm" && version != "GEMM")
    refuse(cat("version is '", version, "', expected gemm"));
  if (fields.integer("bits", 4) != 4)
    refuse(cat("bits is ", fields.integer("bits", 4), ", expected 4"));
  if (!fields.boolean("zero_point", true)) refuse("zero_point is false, AWQ has zero points");
  format.group = read_group(fields, "group_size", 128);
  return format;
}

CheckpointFormat read_gptq(const JsonFields& fields) {
  CheckpointFormat format{CheckpointMethod::kGptq};
  format.bits = static_cast<int>(fields.integer("bits", 4));
  if (format.bits != 4 && format.bits != 8)
    refuse(cat("bits is ", format.bits, ", expected 4 or 8"));
  if (fields.boolean("desc_act", false))
    refuse("desc_act is true; groups in the order of activations are not read");
  format.group = read_group(fields, "group_size", 128);
  format.plain_zeros = fields.text("checkpoint_format", "gptq") == "gptq_v2";
  return format;
}

// The weights of the only group of modules.
const Json& compressed_weights(const JsonFields& fields) {
  const Json* groups = fields.find("config_groups");
  if (groups == nullptr || groups->members() == nullptr || groups->members()->size() != 1)
    refuse("config_groups is no object of one group");
  const Json* weights = groups->members()->front().second.find("weights");
  if (weights == nullptr || weights->members() == nullptr) refuse("config_groups has no weights");
  return *weights;
}

// Whether groups of k are in the order of activations, with an index of each column's group.
bool read_order(const JsonFields& weights) {
  const Json* const given = weights.find("actorder");
  if (given == nullptr) return false;
  if (given->boolean()) return *given->boolean();
  const std::string order = weights.text("actorder", "");
  if (order == "group" || order == "dynamic") return true;
  if (order != "weight" && order != "static")
    refuse(cat("actorder is '", shorten(order, 80), "', expected group or weight"));
  return false;
}

// What changes the weights beside their rounding.
void check_only_quantized(const JsonFields& fields) {
  const Json* const transforms = fields.find("transform_config");
  if (transforms != nullptr &&
      (transforms->members() == nullptr || !transforms->members()->empty()))
    refuse("transform_config is given; models with transforms (Hadamard, rotations) are not read");
  const Json* const sparsity = fields.find("sparsity_config");
  if (sparsity == nullptr || (sparsity->members() != nullptr && sparsity->members()->empty()))
    return;
  const std::string kind = JsonFields(*sparsity).text("format", "");
  if (kind != "dense")
    refuse(cat("sparsity_config has format '", shorten(kind, 80), "', expected dense"));
}

CheckpointFormat read_compressed(const JsonFields& fields) {
  check_only_quantized(fields);
  const JsonFields weights(compressed_weights(fields));
  const std::string kind = fields.text("format", "");
  const std::string type = weights.text("type", "int");
  const std::string strategy = weights.text("strategy", "tensor");
  const auto bits = static_cast<int>(weights.integer("num_bits", 8));
  CheckpointFormat format{CheckpointMethod::kRows, bits};
  if (kind == "pack-quantized") {
    if (type != "int" || (bits != 4 && bits != 8))
      refuse(
          cat("num_bits is ", bits, " of type ", type, ", pack-quantized is read for int 4 and 8"));
    format.method = CheckpointMethod::kPackQuantized;
    format.group = strategy == "group" ? read_group(weights, "group_size", 128) : 0;
    format.ordered = read_order(weights);
    return format;
  }
  const bool rows =
      kind == "int-quantized" || kind == "float-quantized" || kind == "naive-quantized";
  if (!rows || bits != 8)
    refuse(cat("format is '", kind, "' with ", bits,
               " bits, expected pack-quantized, or "
               "int-quantized, float-quantized or naive-quantized with 8"));
  if (strategy == "block") {
    format.method = CheckpointMethod::kFp8;
    format.blocks = true;
  } else if (strategy != "channel" && strategy != "tensor") {
    refuse(cat("strategy is '", strategy, "', expected channel, tensor or block"));
  }
  return format;
}

CheckpointFormat read_fp8(const JsonFields& fields) {
  CheckpointFormat format{CheckpointMethod::kFp8, 8};
  const std::string kind = fields.text("fmt", "e4m3");
  if (kind != "e4m3") refuse(cat("fmt is '", kind, "', expected e4m3"));
  if (fields.find("weight_block_size") == nullptr) return format;
  const std::vector<double> size = fields.numbers("weight_block_size");
  if (size != std::vector<double>{128.0, 128.0}) refuse("weight_block_size is not 128 x 128");
  format.blocks = true;
  return format;
}

CheckpointFormat read_bitsandbytes(const JsonFields& fields) {
  if (!fields.boolean("load_in_4bit", fields.boolean("_load_in_4bit", false)) ||
      fields.text("bnb_4bit_quant_type", "fp4") != "nf4")
    refuse("bitsandbytes is read with load_in_4bit and bnb_4bit_quant_type nf4 only");
  return {CheckpointMethod::kNf4, 4, 64};
}

}  // namespace

std::string to_string(const CheckpointFormat& f) {
  static constexpr const char* kNames[] = {"AWQ",  "GPTQ", "pack-quantized",
                                           "rows", "FP8",  "bitsandbytes nf4"};
  std::string text = cat(kNames[static_cast<int>(f.method)], ", ", f.bits, " bits");
  if (f.blocks) return text + ", blocks of 128x128";
  return f.group == 0 ? text + ", per row" : cat(text, ", group ", f.group);
}

std::optional<CheckpointFormat> read_checkpoint_format(const Json& config) {
  const Json* found = config.find("quantization_config");
  if (found == nullptr) found = config.find("compression_config");
  if (found == nullptr || found->is_null()) return std::nullopt;
  if (found->kind() != Json::Kind::kObject)
    refuse(cat("is ", to_string(found->kind()), ", expected an object"));
  const JsonFields fields(*found);
  const std::string method = fields.text("quant_method", "");
  if (method == "awq") return read_awq(fields);
  if (method == "gptq") return read_gptq(fields);
  if (method == "compressed-tensors") return read_compressed(fields);
  if (method == "fp8") return read_fp8(fields);
  if (method == "bitsandbytes") return read_bitsandbytes(fields);
  refuse(cat("quant_method is '", shorten(method, 80),
             "', expected awq, gptq, compressed-tensors, fp8 or bitsandbytes"));
}

}  // namespace gpk::llm
