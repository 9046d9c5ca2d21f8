#include "ops/kernel_table.h"

#include <map>
#include <mutex>
#include <set>

#include "jit/prefetch.h"

#include "base/error.h"
#include "base/text.h"
#include "core/interrupt.h"

namespace gpk::ops::detail {
namespace {

struct Entry {
  InterruptibleMutex mutex;  // held while building
  std::shared_ptr<Kernel> kernel;
};

struct Table {
  std::mutex mutex;  // held for look-ups only
  std::map<std::tuple<const Context*, Family, std::uint8_t, std::uint64_t>, std::shared_ptr<Entry>>
      entries;
  std::set<std::pair<const Context*, Family>> prefetched;
};

Table& table() {
  static auto* instance = new Table;  // never destroyed: threads keep pointers into it
  return *instance;
}

}  // namespace

KernelSlot& thread_slot(unsigned hash) {
  thread_local KernelSlot slots[kNumSlots];
  return slots[hash % kNumSlots];
}

const Kernel& find_or_build(Context& context, KernelKey key,
                            const std::function<jit::KernelSpec()>& make_spec) {
  std::shared_ptr<Entry> entry;
  bool first = false;  // first use of its family
  {
    const std::lock_guard lock(table().mutex);
    first = table().prefetched.emplace(&context, key.family).second;
    auto& slot = table().entries[{&context, key.family, key.kernel, key.variant}];
    if (!slot) slot = std::make_shared<Entry>();
    entry = slot;
  }
  // GEMM kernels are so large that prefetching others concurrently would slow down the first one.
  const bool wait = key.family == Family::matmul;
  const auto prefetch = [&] {
    jit::prefetch(context, [&context, key] { return prefetch_list(key.family, context); });
  };
  if (first && !wait) prefetch();
  const std::lock_guard lock(entry->mutex);
  if (!entry->kernel) {
    const jit::KernelSpec spec = make_spec();
    if (spec.kernel != key.kernel || spec.variant != key.variant)
      throw Error(cat(spec.op, ": the kernel table was queried for kernel ", int{key.kernel},
                      ", variant ", key.variant, ", but ", spec.expression, " is kernel ",
                      int{spec.kernel}, ", variant ", spec.variant));
    entry->kernel = jit::load_builtin(context, spec);
  }
  if (first && wait) prefetch();
  return *entry->kernel;
}

}  // namespace gpk::ops::detail
