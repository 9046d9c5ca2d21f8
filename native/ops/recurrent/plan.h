// How a recurrent layer is launched.
#pragma once

#include <cstddef>
#include <string>

#include "core/device.h"
#include "kernels/args/recurrent.h"

namespace gpk::ops::recurrent {

struct LayerDesc {
  std::int64_t batch = 1;
  std::int64_t steps = 1;
  std::int64_t hidden = 1;
  int directions = 1;
  int max_cols = 32;  // that kernels have
};

struct LayerPlan {
  int cols = 0;            // of a row of weights, in registers of a lane; 0: in memory
  bool persistent = true;  // all steps in one launch, whose blocks are all resident
  bool together = true;    // both directions in one launch
  int batch = 1;           // samples of a launch
  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;
};

// `num_sms`: what the stream may use. `general`: only kernels of the PTX bundle.
LayerPlan plan_layer(const LayerDesc& desc, const DeviceTraits& traits, int num_sms,
                     bool general = false);
std::string to_string(const LayerPlan& plan);  // "persistent(cols=16, together, batch=4)"

// From one sample to the next in shared memory, in elements.
int pitch_of(std::int64_t hidden);
std::size_t shared_bytes(std::int64_t hidden, int batch);

}  // namespace gpk::ops::recurrent
