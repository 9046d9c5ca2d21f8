#include "llm/rope_table.h"

#include <cmath>
#include <vector>

#include "device/host_copy.h"

namespace gpk::llm {

RopeTable make_rope_table(const RopeConfig& rope, std::int64_t positions, Device device) {
  const ops::RopeSpectrum spectrum =
      ops::rope_spectrum(rope.dim, rope.theta, rope.scaling, positions, "load");
  const std::size_t pairs = spectrum.frequencies.size();
  const auto rows = static_cast<std::size_t>(positions);
  std::vector<float> cos(rows * pairs);
  std::vector<float> sin(rows * pairs);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < pairs; ++j) {
      const float angle = static_cast<float>(i) * static_cast<float>(spectrum.frequencies[j]);
      cos[i * pairs + j] =
          static_cast<float>(std::cos(static_cast<double>(angle)) * spectrum.factor);
      sin[i * pairs + j] =
          static_cast<float>(std::sin(static_cast<double>(angle)) * spectrum.factor);
    }
  const Dims shape{positions, static_cast<std::int64_t>(pairs)};
  return {device::from_host(cos.data(), shape, DType::kFloat32, device),
          device::from_host(sin.data(), shape, DType::kFloat32, device)};
}

}  // namespace gpk::llm
