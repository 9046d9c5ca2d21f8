#include "core/release.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>

#include "core/event.h"
#include "core/graph.h"
#include "core/memory.h"
#include "core/stream.h"

namespace gpk::inline core {
namespace {

struct Kept {
  std::vector<std::shared_ptr<Event>> events;
  std::shared_ptr<void> owner;
};

struct KeptList {
  std::mutex mutex;
  std::vector<Kept> items;
  std::atomic<bool> pending{false};
};

// Never destroyed: arrays may be dropped during interpreter shutdown.
KeptList& kept_list() {
  static auto* list = new KeptList;
  return *list;
}

bool finished(const Kept& kept) {
  return std::all_of(kept.events.begin(), kept.events.end(), [](const auto& event) {
    try {
      return event->query();
    } catch (...) {  // the device is lost: no work is left
      return true;
    }
  });
}

}  // namespace

void release_after(const std::vector<std::shared_ptr<Stream>>& streams,
                   std::shared_ptr<void> owner) noexcept {
  if (owner == nullptr) return;
  Kept kept;
  kept.owner = std::move(owner);
  const bool capturing = capturing_graph() != nullptr;
  for (const auto& stream : streams) {
    try {
      if (stream->context() == nullptr || stream->capturing()) continue;
      const RelaxedCaptureScope relaxed;
      auto event = Event::create(stream->device(), {.timing = false});
      event->record(*stream);
      kept.events.push_back(std::move(event));
    } catch (...) {  // the device is lost: no work is left
    }
  }
  if (!capturing) release_finished();
  if (kept.events.empty() || (!capturing && finished(kept))) return;
  KeptList& list = kept_list();
  const std::lock_guard lock(list.mutex);
  list.items.push_back(std::move(kept));
  list.pending.store(true, std::memory_order_relaxed);
}

bool releases_pending() noexcept { return kept_list().pending.load(std::memory_order_relaxed); }

void release_finished() noexcept {
  if (!releases_pending() || capturing_graph() != nullptr) return;
  std::vector<Kept> done;  // destroyed after unlocking: it may take the GIL
  KeptList& list = kept_list();
  {
    const std::lock_guard lock(list.mutex);
    const auto first = std::stable_partition(list.items.begin(), list.items.end(),
                                             [](const Kept& kept) { return !finished(kept); });
    done.assign(std::make_move_iterator(first), std::make_move_iterator(list.items.end()));
    list.items.erase(first, list.items.end());
    list.pending.store(!list.items.empty(), std::memory_order_relaxed);
  }
}

}  // namespace gpk::inline core
