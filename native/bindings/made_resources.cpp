#include "bindings/made_resources.h"

#include <algorithm>
#include <mutex>

namespace gpk::bind {
namespace {

struct Made {
  std::mutex mutex;
  std::vector<MadeResource> all;
  std::size_t sweep_at = 1024;
};

Made& made() {
  static auto* instance = new Made;  // never destroyed: arrays are made until the process ends
  return *instance;
}

void sweep(Made& state) {
  std::erase_if(state.all, [](const MadeResource& one) { return one.object.expired(); });
  state.sweep_at = std::max<std::size_t>(1024, 2 * state.all.size());
}

}  // namespace

void detail::add_made(const char* kind, std::size_t bytes, std::weak_ptr<const void> object) {
  Made& state = made();
  const std::lock_guard lock(state.mutex);
  if (state.all.size() >= state.sweep_at) sweep(state);
  state.all.push_back({kind, bytes, std::move(object)});
}

void record_made(bool on) {
  Made& state = made();
  const std::lock_guard lock(state.mutex);
  state.all.clear();
  detail::g_record_made = on;
}

std::vector<MadeResource> living_made() {
  Made& state = made();
  const std::lock_guard lock(state.mutex);
  sweep(state);
  return state.all;
}

}  // namespace gpk::bind
