#include "runtime/pool/pool_heap.h"

#include <algorithm>
#include <utility>

#include "base/round_up.h"

namespace gpk::runtime {
namespace {

using Kind = PoolRange::Kind;

// Addresses are relative to the region, so that chunk boundaries fall on multiples.
PoolDevice::Address align_up(const PoolRange& range, std::size_t alignment) noexcept {
  const std::size_t offset = range.address - range.region->address;
  return range.region->address + round_up(offset, alignment);
}

PoolRange probe(PoolStream* stream, std::size_t bytes) noexcept {
  PoolRange range;
  range.stream = stream;
  range.bytes = bytes;
  return range;
}

}  // namespace

PoolHeap::PoolHeap(PoolSpace& space, PoolStreams& streams, std::size_t segment_bytes)
    : space_(space), streams_(streams), segment_bytes_(segment_bytes) {}

PoolHeap::~PoolHeap() {
  for (const auto& region : space_.regions()) {
    for (PoolRange* range = region->first; range != nullptr;)
      delete std::exchange(range, range->next);
    region->first = nullptr;
  }
  while (recycled_ != nullptr) delete std::exchange(recycled_, recycled_->next);
}

void PoolHeap::ensure(std::size_t num) {
  while (num_recycled_ < num_kept_ + num) {
    auto range = std::make_unique<PoolRange>();
    PoolRangeSet set;
    set.insert(range.get());
    range->node = set.extract(set.begin());
    recycle(range.release());
  }
}

PoolRange* PoolHeap::take() noexcept {
  PoolRange* range = std::exchange(recycled_, recycled_->next);
  --num_recycled_;
  range->next = nullptr;
  return range;
}

void PoolHeap::recycle(PoolRange* range) noexcept {
  PoolRangeSet::node_type node = std::move(range->node);
  *range = PoolRange{};
  range->node = std::move(node);
  range->next = std::exchange(recycled_, range);
  ++num_recycled_;
}

void PoolHeap::tag(PoolRange* range, PoolStream* stream) noexcept {
  streams_.add_ref(stream);
  streams_.drop_ref(std::exchange(range->stream, stream));
}

// The second part of the range becomes a separate range with the same properties, in no set.
PoolRange* PoolHeap::split(PoolRange* range, PoolDevice::Address at) noexcept {
  PoolRange* rest = take();
  rest->address = at;
  rest->bytes = range->end() - at;
  rest->kind = range->kind;
  rest->region = range->region;
  rest->arena = range->arena;
  rest->freed_at = range->freed_at;
  tag(rest, range->stream);
  rest->prev = range;
  rest->next = range->next;
  if (rest->next != nullptr) rest->next->prev = rest;
  range->next = rest;
  range->bytes -= rest->bytes;
  return rest;
}

// Neither may be in a set.
void PoolHeap::join(PoolRange* range, PoolRange* next) noexcept {
  range->bytes += next->bytes;
  range->freed_at = std::max(range->freed_at, next->freed_at);
  if (range->stream == nullptr) tag(range, next->stream);
  tag(next, nullptr);
  range->next = next->next;
  if (range->next != nullptr) range->next->prev = range;
  recycle(next);
}

// A hole without a last stream may join one that has one: the stream then applies to both.
bool PoolHeap::can_join(const PoolRange* range, const PoolRange* next) noexcept {
  if (range == nullptr || next == nullptr || range->kind != next->kind) return false;
  if (range->kind == Kind::kVoid) return true;
  return range->kind == Kind::kHole && range->arena == next->arena &&
         (range->stream == next->stream || range->stream == nullptr || next->stream == nullptr);
}

void PoolHeap::remove(PoolRange* range) noexcept {
  if (range->kind == Kind::kVoid) {
    range->node = voids_.extract(range);
  } else {
    range->arena->hole_bytes -= range->bytes;
    range->node = range->arena->holes.extract(range);
  }
}

void PoolHeap::link_hole(PoolRange* range) noexcept {
  range->arena->hole_bytes += range->bytes;
  range->arena->holes.insert(std::move(range->node));
}

PoolRange* PoolHeap::insert_hole(PoolRange* range) noexcept {
  range->kind = Kind::kHole;
  if (PoolRange* prev = range->prev; can_join(prev, range)) {
    remove(prev);
    join(prev, range);
    range = prev;
  }
  if (PoolRange* next = range->next; can_join(range, next)) {
    remove(next);
    join(range, next);
  }
  link_hole(range);
  return range;
}

void PoolHeap::insert_void(PoolRange* range) noexcept {
  range->kind = Kind::kVoid;
  range->arena = nullptr;
  tag(range, nullptr);
  if (PoolRange* prev = range->prev; can_join(prev, range)) {
    remove(prev);
    join(prev, range);
    range = prev;
  }
  if (PoolRange* next = range->next; can_join(range, next)) {
    remove(next);
    join(range, next);
  }
  voids_.insert(std::move(range->node));
}

// The part becomes a range with the same properties, in no set; the rest on both sides is
// unchanged.
PoolRange* PoolHeap::isolate(PoolRange* range, PoolDevice::Address address,
                             std::size_t bytes) noexcept {
  remove(range);
  const auto put_back = [this](PoolRange* part) {
    if (part->kind == Kind::kVoid)
      voids_.insert(std::move(part->node));
    else
      link_hole(part);
  };
  if (address > range->address) {
    PoolRange* rest = split(range, address);
    put_back(range);
    range = rest;
  }
  if (range->bytes > bytes) put_back(split(range, address + bytes));
  return range;
}

PoolRange* PoolHeap::best_hole(const Request& request, PoolStream* stream) const {
  const PoolRangeSet& holes = request.arena->holes;
  PoolRange key = probe(stream, request.bytes);
  for (auto it = holes.lower_bound(&key); it != holes.end() && (*it)->stream == stream; ++it)
    if (align_up(**it, request.alignment_bytes) + request.bytes <= (*it)->end()) return *it;
  return nullptr;
}

PoolRange* PoolHeap::carve(PoolRange* hole, const Request& request) {
  ensure(2);
  PoolRange* range = isolate(hole, align_up(*hole, request.alignment_bytes), request.bytes);
  range->kind = Kind::kUsed;
  tag(range, request.stream);
  return range;
}

PoolRange* PoolHeap::fit(const Request& request) {
  PoolRange* hole = best_hole(request, request.stream);
  PoolRange* unused = best_hole(request, nullptr);
  if (hole == nullptr || (unused != nullptr && unused->bytes < hole->bytes)) hole = unused;
  return hole == nullptr ? nullptr : carve(hole, request);
}

PoolRange* PoolHeap::fit_foreign(const Request& request) {
  PoolRange* best = nullptr;
  for (PoolStream* stream : streams_of(*request.arena)) {
    PoolRange* hole = best_hole(request, stream);
    if (hole != nullptr && (best == nullptr || hole->bytes < best->bytes)) best = hole;
  }
  if (best == nullptr) return nullptr;
  ensure(2);
  streams_.order(best->stream, request.stream->id);
  return carve(best, request);
}

void PoolHeap::give_back(PoolRange* range) noexcept {
  range->span = nullptr;
  range->block = nullptr;
  range->freed_at = ++num_frees_;
  if (PoolStreams::is_over(range->stream)) tag(range, nullptr);
  if (!range->detached) {
    insert_hole(range);
    return;
  }
  range->detached = false;
  num_kept_ -= 2;
  const Inner whole = inner(*range);
  const PoolDevice::Address end = whole.address + whole.num_chunks * space_.chunk_bytes();
  if (range->end() > end) insert_hole(split(range, end));
  if (range->address < whole.address) {
    PoolRange* middle = split(range, whole.address);
    insert_hole(range);
    range = middle;
  }
  insert_void(range);
}

std::vector<PoolStream*> PoolHeap::streams_of(const PoolArena& arena) const {
  std::vector<PoolStream*> streams;
  for (auto it = arena.holes.begin(); it != arena.holes.end();) {
    PoolStream* stream = (*it)->stream;
    if (stream != nullptr) streams.push_back(stream);
    PoolRange last = probe(stream, static_cast<std::size_t>(-1));
    it = arena.holes.upper_bound(&last);
  }
  return streams;
}

template <class Predicate>
void PoolHeap::retag_holes(Predicate is_over) noexcept {
  for (const auto& region : space_.regions())
    for (PoolRange* range = region->first; range != nullptr; range = range->next) {
      if (range->kind != Kind::kHole || range->stream == nullptr || !is_over(*range)) continue;
      remove(range);
      tag(range, nullptr);
      link_hole(range);
    }
  join_all();
}

void PoolHeap::settle(PoolStream* stream, const PoolWait& wait) {
  if (stream == nullptr) return;
  const PoolStreamScope scope(streams_, stream);
  const std::uint64_t now = num_frees_;
  streams_.settle(stream, wait);
  retag_holes([stream, now](const PoolRange& hole) {
    return hole.stream == stream && hole.freed_at <= now;
  });
}

void PoolHeap::release_dead() {
  if (streams_.poll_dead())
    retag_holes([](const PoolRange& hole) { return PoolStreams::is_over(hole.stream); });
}

void PoolHeap::join_all() noexcept {
  for (const auto& region : space_.regions())
    for (PoolRange* range = region->first; range != nullptr; range = range->next) {
      if (range->kind != Kind::kHole || !can_join(range, range->next)) continue;
      remove(range);
      while (can_join(range, range->next)) {
        remove(range->next);
        join(range, range->next);
      }
      link_hole(range);
    }
}

void PoolHeap::dissolve(PoolArena& from, PoolArena& into) noexcept {
  for (const auto& region : space_.regions())
    for (PoolRange* range = region->first; range != nullptr; range = range->next) {
      if (range->arena != &from) continue;
      if (range->kind == Kind::kHole) {
        remove(range);
        range->arena = &into;
        link_hole(range);
      }
      range->arena = &into;
    }
  into.reserved_bytes += std::exchange(from.reserved_bytes, 0);
  join_all();
}

std::size_t PoolHeap::largest_hole(const PoolArena& arena) const noexcept {
  std::size_t largest = 0;
  for (const PoolRange* hole : arena.holes) largest = std::max(largest, hole->bytes);
  return largest;
}

}  // namespace gpk::runtime
