#include "llm/model.h"

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/manipulation/axes.h"
#include "ops/quantize/quantize.h"

namespace gpk::llm {
namespace {

std::int64_t elements_of(const std::vector<Array>& parts) {
  std::int64_t count = 0;
  for (const Array& part : parts) count += part.size();
  return count;
}

// The parts as one array, where they are one already; else nothing.
std::optional<Array> joined_view(const Weight& weight, const std::vector<Array>& parts,
                                 DType dtype) {
  std::int64_t next = parts.front().offset_elems();
  if (elements_of(parts) != num_elements(weight.shape, "load")) return std::nullopt;
  for (const Array& part : parts) {
    if (part.dtype() != dtype || !part.is_contiguous() || part.offset_elems() != next ||
        part.buffer() != parts.front().buffer())
      return std::nullopt;
    next += part.size();
  }
  return Array(weight.shape, contiguous_strides(weight.shape), dtype, parts.front().buffer(),
               parts.front().offset_elems());
}

Array load_weight(const Weight& weight, const std::string& prefix, DType dtype, Device device,
                  const Model::Tensors& tensors) {
  std::vector<Array> parts;
  for (const WeightPart& part : weight.parts) {
    const Array array = tensors.load(prefix + part.tensor);
    parts.push_back(weight.transposed ? ops::swapaxes(array, 0, 1, "load") : array);
  }
  if (auto view = joined_view(weight, parts, dtype)) return *view;
  const Array whole = Array::empty(weight.shape, dtype, device, "load");
  if (elements_of(parts) < whole.size()) ops::fill(whole, Scalar(0.0), "load");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Array to = whole;
    if (weight.shape.size() == 3 && parts[i].ndim() == 2)
      to = Array({weight.shape[1], weight.shape[2]}, {weight.shape[2], 1}, dtype, whole.buffer(),
                 whole.offset_elems() + weight.parts[i].matrix * whole.strides()[0]);
    const std::int64_t rows = parts[i].shape()[0];
    ops::copy_into(slice_axis(to, 0, weight.parts[i].row, rows, 1), parts[i], "load");
  }
  return whole;
}

// The matrices of layers that activations are multiplied with; embeddings, the head and routers are
// not among them.
bool is_quantizable(Role role) {
  switch (role) {
    case Role::kQkv:
    case Role::kOutput:
    case Role::kUp:
    case Role::kDown:
    case Role::kExpertsUp:
    case Role::kExpertsDown: return true;
    default: return false;
  }
}

// What the files have quantised.
std::optional<ops::PackedWeight> load_packed(const Weight& weight, const std::string& prefix,
                                             const Model::Tensors& tensors) {
  if (!tensors.packed) return std::nullopt;
  std::vector<std::string> names;
  for (const WeightPart& part : weight.parts) names.push_back(prefix + part.tensor);
  std::optional<ops::PackedWeight> packed = tensors.packed(names);
  if (!packed) return std::nullopt;
  if (!is_quantizable(weight.role) || weight.transposed)
    throw InvalidArgument(
        cat("load: ", to_string(weight.role), " is quantised in the files, which is not read"));
  if (weight.shape.size() == 3) {
    packed->shape = weight.shape;
    if (packed->layout.blocks)
      throw InvalidArgument(cat("load: ", to_string(weight.role),
                                " has blocks of 128 x 128, which experts do not take"));
  }
  return packed;
}

void freeze(const ops::PackedWeight& packed) {
  for (const auto& [part, array] : packed.parts())
    if (array != nullptr) array->buffer()->set_frozen();
}

}  // namespace

Model::Model(ModelSpec spec, ModelConfig config, DType dtype, Device device, const Tensors& tensors)
    : spec_(std::move(spec)),
      config_(std::move(config)),
      dtype_(dtype),
      device_(device),
      evictable_(tensors.evictable) {
  if (dtype != DType::kFloat32 && dtype != DType::kFloat16 && dtype != DType::kBFloat16)
    throw InvalidArgument(Error::Kind::kType, cat("load: dtype is ", name(dtype),
                                                  ", expected float32, float16 or bfloat16"));
  check_config(config_);
  plan_ = plan_model(spec_, config_);
  decode_plan_ = fuse_norms(plan_);
  source_plan_ = plan_source(spec_, config_);
  const std::vector<Weight> layout = weight_layout(spec_, config_);
  std::string prefix;
  check_tensors(layout, spec_, tensors.shapes, prefix);
  weights_.resize(static_cast<std::size_t>(config_.num_layers) + 1);
  packed_.resize(weights_.size());
  for (const Weight& weight : layout) {
    const std::string before = weight.role == Role::kHead ? "" : prefix;
    const auto layer = static_cast<std::size_t>(weight.layer + 1);
    const auto role = static_cast<std::size_t>(weight.role);
    num_parameters_ += num_elements(weight.shape, "load");
    std::optional<ops::PackedWeight> packed = load_packed(weight, before, tensors);
    if (!packed) {
      Array array = load_weight(weight, before, dtype, device, tensors);
      if (!tensors.quantization || !is_quantizable(weight.role)) {
        num_bytes_ += array.size() * static_cast<std::int64_t>(itemsize(dtype));
        weights_[layer][role] = std::move(array);
        continue;
      }
      packed = ops::quantize(array, *tensors.quantization, "load");
    }
    num_bytes_ += packed->num_bytes();
    packed_[layer][role] = std::move(packed);
  }
  // Kernels may fetch frozen memory before the kernel ahead of them has ended.
  if (device.is_cuda()) Context::get(device.index).synchronize();
  for (auto& layer : weights_)
    for (auto& array : layer)
      if (array) array->buffer()->set_frozen();
  for (auto& layer : packed_)
    for (auto& packed : layer)
      if (packed) freeze(*packed);
}

std::string Model::explain() const {
  std::string formats;
  for (const auto& layer : packed_)  // those of all layers are alike
    for (std::size_t role = 0; role < layer.size(); ++role)
      if (const std::string line = layer[role] ? cat(to_string(static_cast<Role>(role)), ": ",
                                                     to_string(layer[role]->layout), "\n")
                                               : "";
          !line.empty() && formats.find(line) == std::string::npos)
        formats += line;
  return cat(spec_.name, ", ", num_parameters_, " parameters, ", num_bytes_, " bytes, ",
             name(dtype_), ", on ", to_string(device_), "\n", formats,
             to_string(source_plan_, spec_, config_), to_string(plan_, spec_, config_));
}

}  // namespace gpk::llm
