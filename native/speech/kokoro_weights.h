// The tensors of a Kokoro checkpoint by name, and what layers make of them when a model is built.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/array.h"

namespace gpk::speech {

class KokoroWeights {
 public:
  // Tensors of any floating-point type. Checkpoints of data-parallel training have a part "module"
  // in their names ("bert.module.embeddings..."), which is left out here.
  explicit KokoroWeights(const std::map<std::string, Array>& tensors);

  [[nodiscard]] bool contains(const std::string& name) const { return tensors_.contains(name); }
  // In float32. Throw InvalidArgument for a name that is not there and for another shape, -1 in
  // `shape` being any size.
  [[nodiscard]] Array get(const std::string& name, const Dims& shape) const;
  // The weight of a convolution: "<name>.weight", or the weight-norm pair "<name>.weight_g" and
  // "<name>.weight_v": g v / |v|, with the norm over all axes but the first.
  [[nodiscard]] Array conv(const std::string& name, const Dims& shape) const;
  [[nodiscard]] Device device() const;
  [[nodiscard]] std::int64_t num_elems() const;  // of all tensors

 private:
  std::map<std::string, Array> tensors_;
};

// g v / |v|.
Array fold_weight_norm(const Array& g, const Array& v);

}  // namespace gpk::speech
