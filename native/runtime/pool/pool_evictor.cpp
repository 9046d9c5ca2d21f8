#include "runtime/pool/pool_evictor.h"

#include <algorithm>
#include <utility>

namespace gpk::runtime {
namespace {

PoolClass class_of(const PoolLarge& block) noexcept {
  return block.account == nullptr ? PoolClass::kBurstable : block.account->evict_class();
}

PoolHost::Piece piece_of(PoolLarge* block) noexcept {
  return {std::exchange(block->host, nullptr), std::exchange(block->host_bytes, 0)};
}

// Home and users.
template <class Visit>
void for_each_stream(const PoolLarge& block, Visit visit) {
  if (block.range->stream != nullptr) visit(block.range->stream);
  for (PoolStream* stream : block.users) visit(stream);
}

}  // namespace

PoolEvictor::PoolEvictor(PoolDevice& device, PoolSpace& space, PoolHeap& heap, PoolStreams& streams,
                         std::size_t max_host_bytes)
    : device_(device),
      space_(space),
      heap_(heap),
      streams_(streams),
      host_(device, max_host_bytes) {}

PoolEvictor::~PoolEvictor() {
  for (PoolLarge* block : blocks_) {
    if (block->ready != 0) device_.destroy_event(block->ready);
    if (block->host != nullptr) host_.free(piece_of(block));
  }
  for (const Copy& copy : orphans_) {
    if (copy.event != 0) device_.destroy_event(copy.event);
    host_.free(copy.piece);
  }
}

void PoolEvictor::enter(PoolLarge* block) noexcept {
  block->index = blocks_.size();
  blocks_.push_back(block);
  block->uses.store(0);
  block->last_use.store(++ticks_);
  for (auto& stream : block->known) stream.store(PoolLarge::kNoStream);
  block->known[0].store(block->range->stream->id);
  block->next_known = 1;
}

void PoolEvictor::leave(PoolLarge* block) noexcept {
  blocks_[block->index] = blocks_.back();
  blocks_[block->index]->index = block->index;
  blocks_.pop_back();
  if (block->evicted_bytes != 0) {
    counters_.evicted_bytes -= std::exchange(block->evicted_bytes, 0);
    host_.free(piece_of(block));
  }
  if (block->ready_stream == nullptr) return;
  std::erase(arriving_, block);
  const Copy copy{piece_of(block), std::exchange(block->ready_stream, nullptr),
                  std::exchange(block->ready, 0)};
  try {
    orphans_.push_back(copy);
  } catch (...) {
    if (copy.event != 0) device_.destroy_event(copy.event);
    streams_.drop_ref(copy.stream);
    host_.abandon(copy.piece);
  }
}

void PoolEvictor::add_user(PoolLarge* block, PoolStream* stream) {
  if (stream != block->range->stream &&
      std::find(block->users.begin(), block->users.end(), stream) == block->users.end()) {
    block->users.push_back(stream);
    streams_.add_ref(stream);
  }
  if (block->knows(stream->id)) return;
  block->known[block->next_known].store(stream->id, std::memory_order_relaxed);
  block->next_known = (block->next_known + 1) % block->known.size();
}

void PoolEvictor::forget(const PoolStream* stream) noexcept {
  for (PoolLarge* block : blocks_)
    for (auto& known : block->known)
      if (known.load(std::memory_order_relaxed) == stream->id)
        known.store(PoolLarge::kNoStream, std::memory_order_relaxed);
}

bool PoolEvictor::is_candidate(const PoolLarge& block, PoolClass max_class) const noexcept {
  const std::uint32_t uses = block.uses.load();
  const bool restoring = uses == PoolLarge::kAway && block.ready_stream != nullptr;
  return block.evictable && block.evicted_bytes == 0 && (uses == 0 || restoring) &&
         block.range->arena->kind == PoolArena::Kind::kCommon && class_of(block) <= max_class &&
         num_chunks(block) > 0;
}

bool PoolEvictor::is_idle(const PoolLarge& block) noexcept {
  bool idle = true;
  for_each_stream(block, [&](const PoolStream* stream) {
    idle = idle && (PoolStreams::is_over(stream) || stream->done_tick >= block.last_use.load());
  });
  return idle;
}

bool PoolEvictor::has_busy() const noexcept {
  return std::any_of(blocks_.begin(), blocks_.end(), [](const PoolLarge* block) {
    return block->evictable && block->evicted_bytes == 0 &&
           (block->uses.load() != 0 || !is_idle(*block));
  });
}

// The tick is closed before the events are recorded: work submitted after an event gets, or reads,
// a later tick, so a use with a tick up to this one was submitted before the event.
void PoolEvictor::mark_streams(const std::vector<PoolLarge*>& blocks) {
  const std::uint64_t now = ticks_.fetch_add(1);
  for (const PoolLarge* block : blocks)
    for_each_stream(*block, [&](PoolStream* stream) {
      streams_.poll_mark(stream);
      streams_.mark(stream, now);
      streams_.poll_mark(stream);
    });
}

// Enough blocks for `num` chunks in eviction order; none when all together are not enough.
std::vector<PoolLarge*> PoolEvictor::choose(std::size_t num, PoolClass max_class, bool idle_only) {
  std::vector<PoolLarge*> victims;
  for (PoolLarge* block : blocks_)
    if (is_candidate(*block, max_class)) victims.push_back(block);
  if (idle_only) {
    mark_streams(victims);
    std::erase_if(victims, [](const PoolLarge* block) {
      return block->ready_stream != nullptr || !is_idle(*block);
    });
  }
  std::sort(victims.begin(), victims.end(), [](const PoolLarge* a, const PoolLarge* b) {
    if (class_of(*a) != class_of(*b)) return class_of(*a) < class_of(*b);
    return a->last_use.load() < b->last_use.load();
  });
  std::size_t total = 0;
  std::size_t count = 0;
  while (total < num && count < victims.size()) total += num_chunks(*victims[count++]);
  victims.resize(total < num ? 0 : count);
  return victims;
}

std::size_t PoolEvictor::evict(std::size_t num, PoolClass max_class, bool idle_only,
                               const PoolWait& wait) {
  if (num == 0 || !space_.can_map()) return 0;
  poll();
  std::vector<PoolLarge*> victims = choose(num, max_class, idle_only);
  const auto restoring = [](const PoolLarge* block) { return block->ready_stream != nullptr; };
  while (std::any_of(victims.begin(), victims.end(), restoring)) {
    // Still being restored, and the next victim. State may change during the wait.
    PoolLarge* block = *std::find_if(victims.begin(), victims.end(), restoring);
    const PoolStreamScope scope(streams_, block->ready_stream);
    streams_.settle(block->ready_stream, wait);
    poll();
    victims = choose(num, max_class, idle_only);
  }
  return victims.empty() ? 0 : move_out(victims, idle_only, wait);
}

bool PoolEvictor::evict_block(PoolLarge* block, const PoolWait& wait) {
  return move_out({block}, false, wait) > 0;
}

// From here on a thread that wants one of them waits for the pool's lock.
std::vector<PoolLarge*> PoolEvictor::claim(const std::vector<PoolLarge*>& victims, bool idle_only) {
  std::vector<PoolLarge*> claimed;
  claimed.reserve(victims.size());
  try {
    for (PoolLarge* block : victims) {
      std::uint32_t unused = 0;
      if (!block->uses.compare_exchange_strong(unused, PoolLarge::kAway)) continue;
      claimed.push_back(block);
      PoolHost::Piece piece;
      if (!idle_only || is_idle(*block))
        piece = host_.allocate(num_chunks(*block) * space_.chunk_bytes());
      block->host = piece.data;
      block->host_bytes = piece.bytes;
      if (piece.data != nullptr) continue;
      claimed.pop_back();
      block->uses.fetch_and(~PoolLarge::kAway);
    }
  } catch (...) {
    unclaim(claimed);
    throw;
  }
  return claimed;
}

void PoolEvictor::unclaim(const std::vector<PoolLarge*>& blocks) noexcept {
  for (PoolLarge* block : blocks) {
    if (block->host != nullptr) host_.free(piece_of(block));
    block->leaving = false;
    block->uses.fetch_and(~PoolLarge::kAway);
  }
}

void PoolEvictor::copy_out(const std::vector<PoolLarge*>& blocks, const PoolWait& wait) {
  const PoolDevice::Stream on = device_.copy_stream();
  std::vector<PoolStream*> before;
  for (const PoolLarge* block : blocks)
    for_each_stream(*block, [&](PoolStream* stream) {
      if (stream->done_tick < block->last_use.load()) before.push_back(stream);
    });
  std::sort(before.begin(), before.end(),
            [](const PoolStream* a, const PoolStream* b) { return a->index < b->index; });
  before.erase(std::unique(before.begin(), before.end()), before.end());
  for (PoolStream* stream : before) streams_.order(stream, on);
  for (const PoolLarge* block : blocks)
    device_.copy_to_host(block->host, heap_.inner(*block->range).address,
                         num_chunks(*block) * space_.chunk_bytes(), on);
  const PoolDevice::Event done = device_.record(on);
  try {
    wait(done);
  } catch (...) {
    device_.destroy_event(done);
    throw;
  }
  device_.destroy_event(done);
}

std::size_t PoolEvictor::move_out(const std::vector<PoolLarge*>& victims, bool idle_only,
                                  const PoolWait& wait) {
  const std::vector<PoolLarge*> blocks = claim(victims, idle_only);
  if (blocks.empty()) return 0;
  bool prepared = false;
  try {
    heap_.prepare_detach(blocks.size());
    prepared = true;
    for (PoolLarge* block : blocks) block->leaving = true;  // free() waits from here on
    copy_out(blocks, wait);
  } catch (...) {
    if (prepared) heap_.cancel_detach(blocks.size());
    try {  // a copy may be in flight
      PoolStream copies(device_.copy_stream(), 0);
      streams_.settle(&copies, [this](PoolDevice::Event event) { device_.wait(event); });
    } catch (...) {
      for (PoolLarge* block : blocks) host_.abandon(piece_of(block));
    }
    unclaim(blocks);
    throw;
  }
  std::size_t gained = 0;
  for (PoolLarge* block : blocks) {
    const std::size_t num = num_chunks(*block);
    heap_.detach(*block->range);
    block->leaving = false;
    block->evicted_bytes = num * space_.chunk_bytes();
    counters_.evicted_bytes += block->evicted_bytes;
    counters_.evicted_total_bytes += block->evicted_bytes;
    ++counters_.num_evictions;
    gained += num;
  }
  return gained;
}

bool PoolEvictor::restore(PoolLarge* block, PoolStream* stream) {
  arriving_.reserve(arriving_.size() + 1);
  add_user(block, stream);
  if (!heap_.attach(*block->range)) return false;
  try {
    device_.copy_to_device(heap_.inner(*block->range).address, block->host, block->evicted_bytes,
                           stream->id);
  } catch (...) {
    heap_.prepare_detach(1);  // cannot fail: attach() just freed the descriptors
    heap_.detach(*block->range);
    throw;
  }
  counters_.evicted_bytes -= block->evicted_bytes;
  counters_.restored_total_bytes += block->evicted_bytes;
  ++counters_.num_restores;
  block->evicted_bytes = 0;
  block->ready_stream = stream;
  streams_.add_ref(stream);
  arriving_.push_back(block);
  try {
    block->ready = device_.record(stream->id);
  } catch (...) {  // those who need it record one later, which covers more
  }
  return true;
}

void PoolEvictor::order_after_restore(PoolLarge* block, PoolDevice::Stream stream) {
  if (block->ready_stream == nullptr) return;
  const bool same = block->ready_stream->id == stream && !block->ready_stream->dead.load();
  if (same) return;
  if (block->ready != 0)
    device_.stream_wait(stream, block->ready);
  else
    streams_.order(block->ready_stream, stream);
}

bool PoolEvictor::arrived(PoolStream* stream, PoolDevice::Event event) {
  return event != 0 ? device_.poll(event) : PoolStreams::is_over(stream);
}

void PoolEvictor::clear_restore(PoolLarge* block) noexcept {
  if (block->ready != 0) device_.destroy_event(std::exchange(block->ready, 0));
  streams_.drop_ref(std::exchange(block->ready_stream, nullptr));
  host_.free(piece_of(block));
  block->uses.fetch_and(~PoolLarge::kAway);
}

void PoolEvictor::poll() {
  for (PoolLarge* block : arriving_)
    if (block->ready == 0 && !block->ready_stream->dead.load())
      block->ready = device_.record(block->ready_stream->id);
  for (std::size_t i = 0; i < arriving_.size();) {
    PoolLarge* block = arriving_[i];
    if (!arrived(block->ready_stream, block->ready)) {
      ++i;
      continue;
    }
    arriving_.erase(arriving_.begin() + static_cast<std::ptrdiff_t>(i));
    clear_restore(block);
  }
  for (Copy& copy : orphans_)
    if (copy.event == 0 && !copy.stream->dead.load()) copy.event = device_.record(copy.stream->id);
  for (std::size_t i = 0; i < orphans_.size();) {
    Copy& copy = orphans_[i];
    if (!arrived(copy.stream, copy.event)) {
      ++i;
      continue;
    }
    if (copy.event != 0) device_.destroy_event(copy.event);
    streams_.drop_ref(copy.stream);
    host_.free(copy.piece);
    orphans_.erase(orphans_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void PoolEvictor::finish(PoolLarge* block, const PoolWait& wait) {
  while (block->ready_stream != nullptr) {
    const PoolStreamScope scope(streams_, block->ready_stream);
    streams_.settle(block->ready_stream, wait);
    poll();
  }
}

}  // namespace gpk::runtime
