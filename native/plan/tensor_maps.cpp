#include "plan/tensor_maps.h"

#include "plan/thread_cache.h"

namespace gpk::plan {
namespace {

constexpr unsigned kNumMaps = 512;  // three per GEMM of a model with some 150 of them

struct MapKey {
  TensorMapSpec spec;

  [[nodiscard]] unsigned hash() const noexcept {
    std::uint64_t mixed = mix(0, spec.address);
    for (const std::uint64_t size : spec.sizes) mixed = mix(mixed, size);
    for (const std::uint32_t side : spec.box) mixed = mix(mixed, side);
    return static_cast<unsigned>(mix(mixed, spec.pitches[0]) >> 40);
  }
  friend bool operator==(const MapKey&, const MapKey&) = default;
};

}  // namespace

cu::TensorMap tensor_map(const TensorMapSpec& spec) {
  thread_local ThreadCache<MapKey, cu::TensorMap, kNumMaps> maps;
  const MapKey key{spec};
  if (const cu::TensorMap* found = maps.find(key); found != nullptr) return *found;
  return maps.put(key, encode_tensor_map(spec));
}

}  // namespace gpk::plan
