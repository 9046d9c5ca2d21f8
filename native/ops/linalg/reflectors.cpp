#include "ops/linalg/reflectors.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/round_up.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/linalg/leaves.h"
#include "ops/linalg/stack.h"
#include "ops/submit.h"

namespace gpk::ops::linalg {
namespace {

constexpr std::int64_t kReflectors = kernels::kLinalgPanel;

ReflectorPlan plan_of(const Array& a) {
  const Device device = a.device();
  return plan_reflectors(a.shape()[0], rows(a), a.dtype(), device_traits(device),
                         device.is_cuda() ? stream_sms(device) : 1);
}

}  // namespace

Array zeros_like(const Array& a, const Dims& shape, const char* op) {
  return full(shape, Scalar(std::int64_t{0}), a.dtype(), a.device(), op);
}

Array matrices_from(const Array& a, std::int64_t first, std::int64_t count) {
  return slice_axis(a, 0, first, count, 1);
}

Array entry(const Array& all, std::int64_t index, const char* op) {
  return squeeze(slice_axis(all, 0, index, 1, 1), {0}, op);
}

ReflectorBuffers::ReflectorBuffers(const Array& a, const char* op)
    : dtype_(a.dtype()),
      plan_(plan_of(a)),
      column_(Array::empty({a.shape()[0], plan_.pitch}, dtype_, a.device(), op)),
      product_(Array::empty({a.shape()[0], plan_.pitch}, dtype_, a.device(), op)),
      arrivals_(full({a.shape()[0]}, Scalar(std::int64_t{0}), DType::kInt32, a.device(), op)),
      parts_(
          Array::empty({plan_.matrices, plan_.blocks, 2 * kReflectors}, dtype_, a.device(), op)) {
  if (!plan_.shared)
    reflector_ = Array::empty({plan_.matrices, plan_.blocks, plan_.pitch}, dtype_, a.device(), op);
}

Array ReflectorBuffers::padded(const Array& a, const char* op) const {
  const Array result = zeros_like(a, {a.shape()[0], rows(a), plan_.pitch}, op);
  copy_into(cols_from(result, 0, cols(a)), a, op);
  return result;
}

kernels::ReflectorExchange ReflectorBuffers::args(std::int64_t first, std::int64_t columns) const {
  constexpr std::int64_t kBarriers = 2;  // in a column
  kernels::ReflectorExchange args{};
  args.column = address(matrices_from(column_, first, 1));
  args.product = address(matrices_from(product_, first, 1));
  args.arrivals = address(matrices_from(arrivals_, first, 1));
  args.parts = address(parts_);
  args.reflector = address(reflector_);
  args.pitch = static_cast<int>(plan_.pitch);
  args.arrived = static_cast<int>(kBarriers * columns);
  return args;
}

LaunchConfig ReflectorBuffers::config(std::int64_t count) const {
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(plan_.blocks);
  config.grid[1] = static_cast<unsigned>(count);
  config.block[0] = kernels::kReflectorThreads;
  config.shared_bytes = plan_.shared ? static_cast<std::size_t>(plan_.pitch) * itemsize(dtype_) : 0;
  config.cooperative = plan_.blocks > 1;
  return config;
}

void ReflectorBuffers::add_to(std::vector<const Array*>& arrays) const {
  for (const Array* array : {&column_, &product_, &arrivals_, &parts_}) arrays.push_back(array);
  if (reflector_) arrays.push_back(&*reflector_);
}

std::vector<WyPanel> compact(const Array& v, const Array& tau, std::int64_t below, const char* op) {
  const std::int64_t panels = v.shape()[0];
  const std::int64_t batch = v.shape()[1];
  const std::int64_t n = v.shape()[2];
  const Array all = reshape(v, {panels * batch, n, kReflectors}, op);
  const Array t =
      Array::empty({panels * batch, kReflectors, kReflectors}, v.dtype(), v.device(), op);
  wy_leaf(product(adjoint(all, op), all, op), reshape(tau, {panels * batch, kReflectors}, op), t,
          op);
  std::vector<WyPanel> result;
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t first = panel * kReflectors + below;
    if (first >= n) break;
    result.push_back({rows_from(matrices_from(all, panel * batch, batch), first, n - first),
                      matrices_from(t, panel * batch, batch), first});
  }
  return result;
}

ReflectorPlan plan_reflectors(std::int64_t batch, std::int64_t n, DType dtype,
                              const DeviceTraits& traits, int num_sms) {
  constexpr std::int64_t kPitch = 4;  // 16 bytes of any dtype
  constexpr std::int64_t kMaxMatrices = 65535;
  constexpr std::int64_t kRows = kernels::kReflectorThreads / 32;  // a warp has one at a time
  constexpr std::size_t kStatic = std::size_t{16} << 10;           // the kernels' own, at most
  ReflectorPlan plan;
  plan.pitch = round_up(n, kPitch);
  plan.shared = static_cast<std::size_t>(plan.pitch) * itemsize(dtype) + kStatic <=
                traits.shared_per_block_optin_bytes;
  if (traits.cooperative_launch)
    plan.blocks =
        static_cast<int>(std::clamp<std::int64_t>(num_sms / batch, 1, ceil_div(n, kRows)));
  plan.matrices = std::min(batch, plan.blocks > 1 ? num_sms / plan.blocks : kMaxMatrices);
  return plan;
}

std::string to_string(const ReflectorPlan& plan) {
  return cat("reflectors(blocks=", plan.blocks, ", matrices=", plan.matrices,
             ", pitch=", plan.pitch, plan.shared ? ", shared)" : ", global)");
}

}  // namespace gpk::ops::linalg
