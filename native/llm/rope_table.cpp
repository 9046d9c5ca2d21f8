#include "llm/rope_table.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "device/host_copy.h"

namespace gpk::llm {
namespace {

// Of the frequencies of texts of `length` tokens.
void append(const RopeConfig& rope, std::int64_t length, std::int64_t positions,
            std::vector<float>& cos, std::vector<float>& sin) {
  const ops::RopeSpectrum spectrum =
      ops::rope_spectrum(rope.dim, rope.theta, rope.scaling, length, "load");
  for (std::int64_t i = 0; i < positions; ++i)
    for (const double frequency : spectrum.frequencies) {
      const float angle = static_cast<float>(i) * static_cast<float>(frequency);
      cos.push_back(static_cast<float>(std::cos(static_cast<double>(angle)) * spectrum.factor));
      sin.push_back(static_cast<float>(std::sin(static_cast<double>(angle)) * spectrum.factor));
    }
}

RopeTable to_device(const std::vector<float>& cos, const std::vector<float>& sin, std::int64_t rows,
                    Device device) {
  const Dims shape{rows, static_cast<std::int64_t>(cos.size()) / rows};
  return {device::from_host(cos.data(), shape, DType::kFloat32, device),
          device::from_host(sin.data(), shape, DType::kFloat32, device)};
}

}  // namespace

RopeTable make_rope_table(const RopeConfig& rope, std::int64_t positions, Device device) {
  std::vector<float> cos, sin;
  append(rope, positions, positions, cos, sin);
  return to_device(cos, sin, positions, device);
}

std::int64_t rope_border(const RopeConfig& rope, std::int64_t max_length) {
  const auto trained = static_cast<std::int64_t>(rope.scaling.original_max_positions);
  if (max_length <= trained) return 0;
  if (rope.scaling.kind == ops::RopeKind::kDynamic)
    throw InvalidArgument(cat("runner: max_length is ", max_length, ", expected at most ", trained,
                              ", original_max_position_embeddings of a dynamic rope scaling"));
  return rope.scaling.kind == ops::RopeKind::kLongrope ? trained : 0;
}

RopeTable make_rope_tables(const RopeConfig& rope, std::int64_t border, std::int64_t positions,
                           Device device) {
  std::vector<float> cos, sin;
  append(rope, border, positions, cos, sin);
  append(rope, positions, positions, cos, sin);
  return to_device(cos, sin, 2 * positions, device);
}

}  // namespace gpk::llm
