#include "speech/kokoro_weights.h"

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "llm/safetensors_header.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/reduction/reduce.h"

namespace gpk::speech {
namespace {

using llm::quoted_name;

std::string without_module(const std::string& name) {
  constexpr std::string_view kModule = ".module.";
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos || name.compare(dot, kModule.size(), kModule) != 0) return name;
  return name.substr(0, dot) + name.substr(dot + kModule.size() - 1);
}

bool matches(const Dims& shape, const Dims& expected) {
  if (shape.size() != expected.size()) return false;
  for (int i = 0; i < shape.size(); ++i)
    if (expected[i] >= 0 && shape[i] != expected[i]) return false;
  return true;
}

}  // namespace

KokoroWeights::KokoroWeights(const std::map<std::string, Array>& tensors) {
  for (const auto& [name, array] : tensors) {
    if (!tensors_.emplace(without_module(name), array).second)
      throw InvalidArgument(cat("kokoro: tensor ", quoted_name(without_module(name)),
                                " is there twice, with and without \"module\""));
  }
  if (tensors_.empty()) throw InvalidArgument("kokoro: there are no tensors");
}

Device KokoroWeights::device() const { return tensors_.begin()->second.device(); }

std::int64_t KokoroWeights::num_elems() const {
  std::int64_t sum = 0;
  for (const auto& [name, array] : tensors_) sum += array.size();
  return sum;
}

Array KokoroWeights::get(const std::string& name, const Dims& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw InvalidArgument(cat("kokoro: the checkpoint has no tensor ", quoted_name(name)));
  const Array& array = found->second;
  if (!matches(array.shape(), shape))
    throw InvalidArgument(cat("kokoro: tensor ", quoted_name(name), " has shape ",
                              to_string(array.shape()), ", expected ", to_string(shape)));
  if (info(array.dtype()).kind != DTypeClass::kFloat || itemsize(array.dtype()) < 2)
    throw InvalidArgument(Error::Kind::kType,
                          cat("kokoro: tensor ", quoted_name(name), " has dtype ",
                              gpk::name(array.dtype()), ", expected a floating-point type"));
  return ops::contiguous(ops::cast(array, DType::kFloat32, "kokoro"), "kokoro");
}

Array KokoroWeights::conv(const std::string& name, const Dims& shape) const {
  if (contains(name + ".weight")) return get(name + ".weight", shape);
  const Array v = get(name + ".weight_v", shape);
  return fold_weight_norm(get(name + ".weight_g", {v.shape()[0], 1, 1}), v);
}

Array fold_weight_norm(const Array& g, const Array& v) {
  ops::ReduceOptions options;
  options.axes = Dims{1, 2};
  options.keepdims = true;
  const Array norm = ops::sqrt(ops::reduce(ops::OpId::sum, ops::square(v), options));
  return ops::multiply(v, ops::divide(g, norm));
}

}  // namespace gpk::speech
