// A model: its spec, its numbers and its weights on a device.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/array.h"
#include "llm/model_plan.h"
#include "ops/quantize/packed_weight.h"

namespace gpk::llm {

class Model {
 public:
  // What a model is made from: the shapes of all tensors, and the way to one of them, as an array
  // on the device in any floating-point type. Tensors of one weight that are neighbours in memory
  // are used where they are, others are copied.
  struct Tensors {
    std::map<std::string, Dims> shapes;
    std::function<Array(const std::string& name)> load;
    bool evictable = false;  // they may be moved to host memory and back
    // Linear layers of the model are quantised; nothing: they stay as they are.
    std::optional<ops::PackedLayout> quantization = {};
    // A weight that the files have quantised, of the tensors that make up its rows; nothing: they
    // are plain. Without a function all are.
    std::function<std::optional<ops::PackedWeight>(const std::vector<std::string>& names)> packed =
        {};
  };

  // Throws InvalidArgument for missing, left over or misshapen tensors, naming them.
  Model(ModelSpec spec, ModelConfig config, DType dtype, Device device, const Tensors& tensors);

  [[nodiscard]] const ModelSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] const ModelConfig& config() const noexcept { return config_; }
  [[nodiscard]] const ModelPlan& plan() const noexcept { return plan_; }
  [[nodiscard]] const ModelPlan& decode_plan() const noexcept { return decode_plan_; }
  // What is computed once from the states of an encoder; empty without one.
  [[nodiscard]] const ModelPlan& source_plan() const noexcept { return source_plan_; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] Device device() const noexcept { return device_; }
  // Weights may be evicted, so no graph may hold them.
  [[nodiscard]] bool evictable() const noexcept { return evictable_; }
  [[nodiscard]] std::int64_t num_parameters() const noexcept { return num_parameters_; }
  [[nodiscard]] std::int64_t num_bytes() const noexcept { return num_bytes_; }  // of the weights

  // Of a layer, or of the whole model (-1). nullopt for roles that it does not have.
  [[nodiscard]] const std::optional<Array>& weight(Role role, std::int64_t layer) const {
    const auto row = static_cast<std::size_t>(layer + 1);
    return weights_[row][static_cast<std::size_t>(role)];
  }

  // The same of a weight that is quantised: it has no array.
  [[nodiscard]] const std::optional<ops::PackedWeight>& packed(Role role,
                                                               std::int64_t layer) const {
    const auto row = static_cast<std::size_t>(layer + 1);
    return packed_[row][static_cast<std::size_t>(role)];
  }

  // The plan and the sizes of everything, as text.
  [[nodiscard]] std::string explain() const;

 private:
  ModelSpec spec_;
  ModelConfig config_;
  ModelPlan plan_, decode_plan_, source_plan_;
  DType dtype_;
  Device device_;
  bool evictable_;
  std::int64_t num_parameters_ = 0;
  std::int64_t num_bytes_ = 0;
  std::vector<std::array<std::optional<Array>, kNumRoles>> weights_;  // row 0: of no layer
  std::vector<std::array<std::optional<ops::PackedWeight>, kNumRoles>> packed_;
};

}  // namespace gpk::llm
