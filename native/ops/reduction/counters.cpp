#include "ops/reduction/counters.h"

#include <map>
#include <memory>
#include <optional>

#include "core/graph.h"
#include "core/scalar.h"
#include "core/stream.h"
#include "device/memory_account.h"
#include "ops/elementwise/fill.h"
#include "ops/reduction/plan.h"

namespace gpk::ops::reduction {
namespace {

struct Owned {
  std::weak_ptr<Stream> stream;
  std::optional<Array> counters;
};

Array make_counters(Device device) {
  return full({kMaxSplitTiles}, Scalar(std::int64_t{0}), DType::kUInt32, device, "reduce");
}

}  // namespace

Array zeroed_counters(Device device) {
  if (capturing_graph() != nullptr) return make_counters(device);
  const std::shared_ptr<Stream>& stream = current_stream(device);
  thread_local std::map<Stream*, Owned> owned;
  thread_local Stream* last_stream = nullptr;
  thread_local Owned* last = nullptr;
  if (last_stream == stream.get() && !last->stream.expired()) return *last->counters;
  last_stream = nullptr;
  for (auto it = owned.begin(); it != owned.end();)
    it = it->second.stream.expired() ? owned.erase(it) : std::next(it);
  Owned& found = owned[stream.get()];
  if (!found.counters) {
    const device::AccountScope nobodys(device);  // they stay when the caller's account is closed
    found = {stream, make_counters(device)};
  }
  last_stream = stream.get();
  last = &found;
  return *found.counters;
}

}  // namespace gpk::ops::reduction
