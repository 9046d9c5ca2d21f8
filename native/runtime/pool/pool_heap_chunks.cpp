// The part of the heap that maps and unmaps.
#include <algorithm>
#include <utility>

#include "runtime/pool/pool_heap.h"

namespace gpk::runtime {

using Kind = PoolRange::Kind;

PoolHeap::Inner PoolHeap::inner(const PoolRange& range) const noexcept {
  const std::size_t chunk = space_.chunk_bytes();
  const std::size_t first = (range.address - range.region->address + chunk - 1) / chunk;
  const std::size_t last = (range.end() - range.region->address) / chunk;
  return {range.region->address + first * chunk, last > first ? last - first : 0};
}

// The cost of serving the request in this void, merged with usable holes beside it.
void PoolHeap::improve(Growth& best, PoolRange* gap, const Request& request) const {
  const auto usable = [&request](const PoolRange* hole) {
    return hole != nullptr && hole->kind == Kind::kHole && hole->arena == request.arena &&
           (hole->stream == request.stream || hole->stream == nullptr);
  };
  const std::size_t chunk = space_.chunk_bytes();
  const auto offer = [&](PoolDevice::Address address, std::size_t num) {
    if (best.gap == nullptr || num < best.num_chunks) best = {gap, address, num};
  };
  const PoolDevice::Address base = gap->region->address;
  const PoolRange* next = usable(gap->next) ? gap->next : nullptr;
  PoolDevice::Address start = gap->address;
  if (usable(gap->prev)) {
    const std::size_t offset = gap->prev->address - base;
    const std::size_t mask = request.alignment_bytes - 1;
    start = base + ((offset + mask) & ~mask);
  }
  const PoolDevice::Address end = start + request.bytes;
  if (end <= gap->end())
    offer(gap->address, space_.num_chunks(end - gap->address));
  else if (next != nullptr && end <= next->end())
    offer(gap->address, gap->bytes / chunk);
  if (next == nullptr || next->end() - base < request.bytes) return;
  const std::size_t back = (next->end() - base - request.bytes) & ~(request.alignment_bytes - 1);
  if (base + back < gap->address || base + back >= gap->end()) return;
  const std::size_t num = space_.num_chunks(gap->end() - (base + back));
  offer(gap->end() - num * chunk, num);
}

PoolHeap::Growth PoolHeap::plan(const Request& request) const {
  Growth best;
  for (PoolRange* gap : voids_) improve(best, gap, request);
  if (best.gap == nullptr) best.num_chunks = space_.num_chunks(request.bytes);
  return best;
}

std::size_t PoolHeap::shortage(const Request& request) const {
  const std::size_t available = space_.num_available();
  const std::size_t needed = plan(request).num_chunks;
  return needed > available ? needed - available : 0;
}

// The region as one range in no set.
PoolRange* PoolHeap::add_region(std::size_t bytes) {
  PoolRegion* region = space_.add_region(bytes);
  if (region == nullptr) return nullptr;
  PoolRange* range = take();
  range->address = region->address;
  range->bytes = region->bytes;
  range->region = region;
  region->first = range;
  return range;
}

PoolRange* PoolHeap::grow_allocation(const Request& request) {
  PoolRange* range = nullptr;
  if (request.bytes < segment_bytes_) range = add_region(segment_bytes_);
  if (range == nullptr) range = add_region(request.bytes);
  if (range == nullptr) return nullptr;
  range->arena = request.arena;
  range->arena->reserved_bytes += range->bytes;
  return carve(insert_hole(range), request);
}

PoolRange* PoolHeap::grow(const Request& request) {
  ensure(6);  // after this only the device can fail
  if (!space_.can_map()) return grow_allocation(request);
  Growth growth = plan(request);
  if (growth.num_chunks > space_.num_available()) return nullptr;
  if (!space_.ensure_spare(growth.num_chunks)) return nullptr;
  if (growth.gap == nullptr) {
    PoolRange* gap = add_region(request.bytes);
    if (gap == nullptr) return nullptr;
    insert_void(gap);
    growth.gap = gap;
    growth.address = gap->address;
  }
  PoolRange* hole =
      map_part(growth.gap, growth.address, growth.num_chunks, *request.arena, request.stream);
  return hole == nullptr ? nullptr : carve(hole, request);
}

PoolRange* PoolHeap::map_part(PoolRange* gap, PoolDevice::Address address, std::size_t num,
                              PoolArena& arena, PoolStream* stream) {
  if (!space_.map(*gap->region, address, num)) return nullptr;
  PoolRange* range = isolate(gap, address, num * space_.chunk_bytes());
  range->arena = &arena;
  arena.reserved_bytes += range->bytes;
  tag(range, stream);  // like the adjacent holes it was planned with
  return insert_hole(range);
}

bool PoolHeap::supply(PoolArena& arena, std::size_t num) {
  ensure(3);
  const std::size_t bytes = num * space_.chunk_bytes();
  PoolRange* gap = nullptr;
  if (!space_.can_map()) {
    gap = add_region(bytes);
    if (gap == nullptr) return false;
    gap->arena = &arena;
    arena.reserved_bytes += gap->bytes;
    insert_hole(gap);
    return true;
  }
  if (num > space_.num_available() || !space_.ensure_spare(num)) return false;
  for (PoolRange* candidate : voids_)
    if (gap == nullptr && candidate->bytes >= bytes) gap = candidate;
  if (gap == nullptr) {
    gap = add_region(bytes);
    if (gap == nullptr) return false;
    insert_void(gap);
  }
  return map_part(gap, gap->address, num, arena, nullptr) != nullptr;
}

// The smallest hole of the stream with a whole chunk, to keep large ones intact.
PoolRange* PoolHeap::find_chunks(const PoolArena& arena, PoolStream* stream) const {
  PoolRange key;
  key.stream = stream;
  key.bytes = space_.chunk_bytes();
  for (auto it = arena.holes.lower_bound(&key); it != arena.holes.end(); ++it) {
    if ((*it)->stream != stream) break;
    if (inner(**it).num_chunks > 0) return *it;
  }
  return nullptr;
}

PoolRange* PoolHeap::find_largest(const PoolArena& arena) const {
  PoolRange* best = nullptr;
  std::size_t most = 0;
  for (PoolRange* hole : arena.holes) {
    const std::size_t num = inner(*hole).num_chunks;
    if (num > most) {
      best = hole;
      most = num;
    }
  }
  return best;
}

std::size_t PoolHeap::num_reclaimable(const PoolArena& arena, const PoolStream* stream) const {
  std::size_t num = 0;
  for (const PoolRange* hole : arena.holes) {
    if (hole->stream != stream) continue;
    if (space_.can_map())
      num += inner(*hole).num_chunks;
    else if (hole->bytes == hole->region->bytes)
      num += space_.num_chunks(hole->bytes);
  }
  return num;
}

std::size_t PoolHeap::reclaim_allocations(PoolArena& arena, std::size_t num) {
  std::size_t gained = 0;
  for (auto it = arena.holes.begin(); it != arena.holes.end() && gained < num;) {
    PoolRange* hole = *it++;
    PoolRegion* region = hole->region;
    if (hole->stream != nullptr || hole->bytes != region->bytes) continue;
    remove(hole);
    arena.reserved_bytes -= hole->bytes;
    gained += space_.num_chunks(hole->bytes);
    recycle(hole);
    space_.remove_region(region);
  }
  return gained;
}

std::size_t PoolHeap::reclaim(PoolArena& arena, std::size_t num) {
  if (!space_.can_map()) return reclaim_allocations(arena, num);
  std::size_t gained = 0;
  while (gained < num) {
    ensure(2);
    PoolRange* hole = find_chunks(arena, nullptr);
    if (hole == nullptr) break;
    const Inner whole = inner(*hole);
    const std::size_t count = std::min(whole.num_chunks, num - gained);
    PoolRange* range = isolate(hole, whole.address, count * space_.chunk_bytes());
    space_.unmap(*range->region, range->address, count);
    arena.reserved_bytes -= range->bytes;
    insert_void(range);
    gained += count;
  }
  return gained;
}

std::size_t PoolHeap::donate(PoolArena& from, PoolArena& to, std::size_t num) {
  std::size_t given = 0;
  while (given < num) {
    ensure(2);
    PoolRange* hole = find_largest(from);
    if (hole == nullptr) break;
    const Inner whole = inner(*hole);
    if (!space_.can_map() && whole.num_chunks < num) break;
    const std::size_t count = std::min(whole.num_chunks, num - given);
    PoolRange* range = isolate(hole, whole.address, count * space_.chunk_bytes());
    range->arena = &to;
    from.reserved_bytes -= range->bytes;
    to.reserved_bytes += range->bytes;
    insert_hole(range);
    given += count;
  }
  return given;
}

void PoolHeap::detach(PoolRange& range) noexcept {
  const Inner whole = inner(range);
  space_.unmap(*range.region, whole.address, whole.num_chunks);
  range.arena->reserved_bytes -= whole.num_chunks * space_.chunk_bytes();
  range.detached = true;
}

bool PoolHeap::attach(PoolRange& range) {
  const Inner whole = inner(range);
  if (!space_.map(*range.region, whole.address, whole.num_chunks)) return false;
  range.arena->reserved_bytes += whole.num_chunks * space_.chunk_bytes();
  range.detached = false;
  num_kept_ -= 2;
  return true;
}

}  // namespace gpk::runtime
