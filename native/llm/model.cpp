#include "llm/model.h"

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/manipulation/axes.h"

namespace gpk::llm {
namespace {

// The tensor where nothing has to be done to it, else a new array that its parts are copied to.
Array load_weight(const Weight& weight, const std::string& prefix, DType dtype, Device device,
                  const Model::Tensors& tensors) {
  const auto load = [&](const WeightPart& part) {
    Array array = tensors.load(prefix + part.tensor);
    return weight.transposed ? ops::swapaxes(array, 0, 1, "load") : array;
  };
  if (weight.parts.size() == 1 && weight.shape.size() < 3) {
    const Array array = load(weight.parts.front());
    return ops::contiguous(ops::cast(array, dtype, "load"), "load");
  }
  const Array whole = Array::empty(weight.shape, dtype, device, "load");
  for (const WeightPart& part : weight.parts) {
    const Array source = load(part);
    Array matrix = whole;
    if (weight.shape.size() == 3)
      matrix = Array({weight.shape[1], weight.shape[2]}, {weight.shape[2], 1}, dtype,
                     whole.buffer(), whole.offset_elems() + part.matrix * whole.strides()[0]);
    ops::copy_into(slice_axis(matrix, 0, part.row, source.shape()[0], 1), source, "load");
  }
  return whole;
}

}  // namespace

Model::Model(ModelSpec spec, ModelConfig config, DType dtype, Device device,
             const Tensors& tensors)
    : spec_(std::move(spec)), config_(std::move(config)), dtype_(dtype), device_(device) {
  if (dtype != DType::kFloat32 && dtype != DType::kFloat16 && dtype != DType::kBFloat16)
    throw InvalidArgument(Error::Kind::kType,
                          cat("load: dtype is ", name(dtype),
                              ", expected float32, float16 or bfloat16"));
  check_config(config_);
  plan_ = plan_model(spec_, config_);
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
             to_string(device_), "\n", to_string(plan_, spec_, config_));
}

}  // namespace gpk::llm
