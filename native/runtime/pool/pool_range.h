// Ranges of the pool's address space, and the arenas that own the mapped ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "runtime/pool/pool_space.h"
#include "runtime/pool/pool_streams.h"

namespace gpk::runtime {

struct PoolArena;
struct PoolLarge;
struct PoolRange;
struct PoolSpan;

// By last stream (none first), size, address: the best fit for a stream is a lower bound.
struct PoolRangeLess {
  bool operator()(const PoolRange* a, const PoolRange* b) const noexcept;
};
using PoolRangeSet = std::set<PoolRange*, PoolRangeLess>;

// Ranges of a region are neighbours in its list, without gaps.
struct PoolRange {
  enum class Kind : std::uint8_t {
    kVoid,  // nothing mapped, no owner: whole chunks
    kHole,  // mapped and free
    kUsed,  // a large block or a span; chunks of an evicted block are not mapped
  };
  PoolDevice::Address address = 0;
  std::size_t bytes = 0;
  Kind kind = Kind::kVoid;
  bool detached = false;  // used, and its whole chunks are not mapped
  PoolRegion* region = nullptr;
  PoolRange* prev = nullptr;
  PoolRange* next = nullptr;
  PoolArena* arena = nullptr;    // nullptr for voids
  PoolStream* stream = nullptr;  // home of a used range; last user of a hole, nullptr: none
  std::uint64_t freed_at = 0;    // of a hole: the heap's count of frees
  PoolSpan* span = nullptr;      // of a used range, one of these two
  PoolLarge* block = nullptr;
  PoolRangeSet::node_type node;  // while in no set, so that freeing needs no allocation

  [[nodiscard]] PoolDevice::Address end() const noexcept { return address + bytes; }
};

inline bool PoolRangeLess::operator()(const PoolRange* a, const PoolRange* b) const noexcept {
  const std::uint64_t a_index = a->stream == nullptr ? 0 : a->stream->index;
  const std::uint64_t b_index = b->stream == nullptr ? 0 : b->stream->index;
  if (a_index != b_index) return a_index < b_index;
  if (a->bytes != b->bytes) return a->bytes < b->bytes;
  return a->address < b->address;
}

inline constexpr std::size_t kNumPoolSizeClasses = 44;

// Spans with free blocks, per size class.
struct PoolBins {
  std::array<PoolSpan*, kNumPoolSizeClasses> first{};
  std::size_t num_spans = 0;  // with or without free blocks
};

// A set of chunks with its own free lists.
struct PoolArena {
  enum class Kind : std::uint8_t {
    kCommon,
    kReserved,  // holds its chunks from the start, exclusively
    kPrivate,   // of a graph capture: keeps its chunks until it is closed
  };
  PoolArena(std::uint64_t arena_id, Kind arena_kind) : id(arena_id), kind(arena_kind) {}

  const std::uint64_t id;
  const Kind kind;
  bool closing = false;
  std::size_t guaranteed_bytes = 0;  // of a reservation
  std::size_t reserved_bytes = 0;
  std::size_t hole_bytes = 0;
  PoolRangeSet holes;
  std::map<std::uint64_t, PoolBins> bins;  // by index of the stream
};

}  // namespace gpk::runtime
