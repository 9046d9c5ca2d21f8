#include "llm/model.h"

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/manipulation/axes.h"

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
  decode_plan_ = fuse_norms(plan_, spec_);
  source_plan_ = plan_source(spec_, config_);
  const std::vector<Weight> layout = weight_layout(spec_, config_);
  std::string prefix;
  check_tensors(layout, spec_, tensors.shapes, prefix);
  weights_.resize(static_cast<std::size_t>(config_.num_layers) + 1);
  for (const Weight& weight : layout) {
    const bool head = weight.role == Role::kHead;
    Array array = load_weight(weight, head ? "" : prefix, dtype, device, tensors);
    num_parameters_ += array.size();
    weights_[static_cast<std::size_t>(weight.layer + 1)][static_cast<std::size_t>(weight.role)] =
        std::move(array);
  }
  // Kernels may fetch frozen memory before the kernel ahead of them has ended.
  if (device.is_cuda()) Context::get(device.index).synchronize();
  for (auto& layer : weights_)
    for (auto& array : layer)
      if (array) array->buffer()->set_frozen();
}

std::int64_t Model::num_bytes() const noexcept {
  return num_parameters_ * static_cast<std::int64_t>(itemsize(dtype_));
}

std::string Model::explain() const {
  return cat(spec_.name, ", ", num_parameters_, " parameters, ", name(dtype_), ", on ",
             to_string(device_), "\n", to_string(source_plan_, spec_, config_),
             to_string(plan_, spec_, config_));
}

}  // namespace gpk::llm
