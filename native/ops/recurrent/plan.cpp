#include "ops/recurrent/plan.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/round_up.h"
#include "base/text.h"

namespace gpk::ops::recurrent {
namespace {

using kernels::kRecurrentMaxBatch;
using kernels::kRecurrentUnits;

constexpr int kColumnsOfWarp = 32;

// Columns of a lane: what holds the row, so that few kernels do for all sizes.
int columns(std::int64_t hidden, int max_cols) {
  for (const int cols : {4, 8, 16, 32})
    if (cols <= max_cols && hidden <= std::int64_t{cols} * kColumnsOfWarp) return cols;
  return 0;
}

}  // namespace

int pitch_of(std::int64_t hidden) {
  constexpr std::int64_t kChunk = std::int64_t{4} * kColumnsOfWarp;  // 16 bytes of every lane
  return static_cast<int>(round_up(hidden, kChunk));
}

std::size_t shared_bytes(std::int64_t hidden, int batch) {
  return std::size_t{2} * static_cast<std::size_t>(batch) *
         static_cast<std::size_t>(pitch_of(hidden)) * sizeof(float);
}

LayerPlan plan_layer(const LayerDesc& desc, const DeviceTraits& traits, int num_sms, bool general) {
  LayerPlan plan;
  plan.cols = general ? 0 : columns(desc.hidden, desc.max_cols);
  const std::size_t one = shared_bytes(desc.hidden, 1);
  const auto room = static_cast<std::int64_t>(traits.shared_per_block_optin_bytes / one);
  plan.batch = static_cast<int>(std::clamp<std::int64_t>(
      std::min({desc.batch, room, std::int64_t{kRecurrentMaxBatch}}), 1, kRecurrentMaxBatch));
  // One block on a multiprocessor: its registers are full of weights.
  const std::int64_t blocks = ceil_div(desc.hidden, kRecurrentUnits);
  plan.persistent = plan.cols > 0 && traits.cooperative_launch && blocks <= num_sms;
  plan.together = !plan.persistent || blocks * desc.directions <= num_sms;
  return plan;
}

std::string to_string(const LayerPlan& plan) {
  return cat(plan.persistent ? "persistent" : "stepwise", "(cols=", plan.cols,
             plan.together ? ", together" : ", one by one", ", batch=", plan.batch, ")");
}

}  // namespace gpk::ops::recurrent
