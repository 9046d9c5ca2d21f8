// Maps a small key to a loaded kernel, with nothing textual on a hit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/context.h"
#include "core/module.h"
#include "jit/builtin.h"
#include "ops/op.h"

namespace gpk::ops {

// A family, a kernel of it, and the fields of a plan that select code, packed by the family.
struct KernelKey {
  Family family;
  std::uint8_t kernel = 0;
  std::uint64_t variant = 0;
  friend bool operator==(const KernelKey&, const KernelKey&) = default;
};

namespace detail {
struct KernelSlot {
  KernelKey key{};
  const Context* context = nullptr;
  const Kernel* kernel = nullptr;
};
inline constexpr unsigned kNumSlots = 64;
KernelSlot& thread_slot(unsigned hash);
const Kernel& find_or_build(Context& context, KernelKey key,
                            const std::function<jit::KernelSpec()>& make_spec);
}  // namespace detail

// Looks in a small per-thread table, then in one shared by all threads; `make_spec` is called on a
// miss in both. Concurrent first uses of one kernel compile it once and do not block other kernels.
// A failed build is retried by the next call. Kernels live as long as the process.
template <class MakeSpec>
const Kernel& kernel(Context& context, KernelKey key, const MakeSpec& make_spec) {
  const std::uint64_t mixed =
      (key.variant + (static_cast<std::uint64_t>(key.family) << 8 | key.kernel) * 40503u) *
      0x9e3779b97f4a7c15u;
  const auto hash = static_cast<unsigned>(mixed >> 40);
  detail::KernelSlot& slot = detail::thread_slot(hash);
  if (slot.kernel != nullptr && slot.key == key && slot.context == &context) [[likely]]
    return *slot.kernel;
  const Kernel& found = detail::find_or_build(context, key, make_spec);
  slot = {key, &context, &found};
  return found;
}

}  // namespace gpk::ops
