// What tests of graphs share: the fake driver's scale kernel and small arrays for it.
#pragma once

#include <memory>
#include <vector>

#include "core/array.h"
#include "core/graph.h"
#include "device/host_copy.h"
#include "fake_driver/core_fixture.h"

namespace gpk {

class GraphTest : public CoreTest {
 protected:
  // scale(float* x, float factor, int n), as the fake driver knows it.
  static std::shared_ptr<Kernel> load_scale() { return load_kernel("scale"); }

  static void launch_scale(const Kernel& kernel, const Array& x, float factor) {
    launch_args(kernel, {.block = {32, 1, 1}}, current_stream(kGpu), x.device_ptr(), factor,
                static_cast<int>(x.size()));
  }

  static Array make_ones() {
    const float ones[4] = {1, 1, 1, 1};
    return device::from_host(ones, {4}, DType::kFloat32, kGpu);
  }

  static float first_of(const Array& array) {
    std::vector<float> values(static_cast<std::size_t>(array.size()));
    device::to_host(array, values.data());
    return values[0];
  }
};

}  // namespace gpk
