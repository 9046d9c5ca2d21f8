#include "ops/counters.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>

#include "core/graph.h"
#include "core/scalar.h"
#include "core/stream.h"
#include "device/memory_account.h"
#include "ops/elementwise/fill.h"

namespace gpk::ops {
namespace {

struct Owned {
  std::weak_ptr<Stream> stream;
  std::optional<Array> counters;
};

constexpr std::int64_t kFewest = 4096;

Array make_counters(Device device, std::int64_t count) {
  return full({count}, Scalar(std::int64_t{0}), DType::kUInt32, device, "counters");
}

// In a capture one fill serves all kernels of the stream: each leaves the counters at zero.
Array captured_counters(Graph& graph, Device device, std::int64_t count) {
  std::shared_ptr<void>& shared = graph.shared_by(*current_stream(device));
  const auto* found = static_cast<const Array*>(shared.get());
  if (found == nullptr || found->size() < count) {
    auto made = std::make_shared<Array>(make_counters(device, std::max(count, kFewest)));
    found = made.get();
    shared = std::move(made);
  }
  return *found;
}

}  // namespace

Array zeroed_counters(Device device, std::int64_t count) {
  if (Graph* graph = capturing_graph()) return captured_counters(*graph, device, count);
  const std::shared_ptr<Stream>& stream = current_stream(device);
  thread_local std::map<Stream*, Owned> owned;
  thread_local Stream* last_stream = nullptr;
  thread_local Owned* last = nullptr;
  const auto fits = [&](const Owned& of) { return of.counters && of.counters->size() >= count; };
  if (last_stream == stream.get() && !last->stream.expired() && fits(*last)) return *last->counters;
  last_stream = nullptr;
  // The counters hold the stream that they are freed on: nobody else does.
  for (auto it = owned.begin(); it != owned.end();)
    it = it->second.stream.use_count() <= 1 ? owned.erase(it) : std::next(it);
  Owned& found = owned[stream.get()];
  if (!fits(found)) {
    const device::AccountScope nobodys(device);  // they stay when the caller's account is closed
    const auto room = std::bit_ceil(static_cast<std::uint64_t>(std::max(count, kFewest)));
    found = {stream, make_counters(device, static_cast<std::int64_t>(room))};
  }
  last_stream = stream.get();
  last = &found;
  return *found.counters;
}

}  // namespace gpk::ops
