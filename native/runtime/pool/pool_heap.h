// Best fit with splitting and merging over the pool's address space. A hole records the stream that
// used it last; holes are unmapped chunk by chunk, and their physical memory is mapped where it is
// needed.
//
// The states of a range (PoolRange::Kind):
//
//           grow, supply              fit, fit_foreign               detach
//   kVoid --------------> kHole --------------------------> kUsed ------------> kUsed, detached
//     ^                   |   ^                              |  ^                  |   |
//     |      reclaim      |   '--------- give_back ----------'  '----- attach -----'   |
//     '-------------------'                                                            |
//     '---------------- give_back: its whole chunks; the rest becomes holes -----------'
//
// Void: address space, nothing mapped. Hole: mapped and free. Detached: evicted, its whole chunks
// are unmapped and the address stays. Neighbouring voids are joined, and neighbouring holes of one
// arena unless two streams used them.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/pool/pool_range.h"

namespace gpk::runtime {

inline constexpr std::size_t kPoolAlignment = 512;  // of ranges, in address and size

// Not thread safe: guarded by the pool's lock. Device calls may throw; the heap is then as before
// the call, except that chunks may be spare instead of free.
class PoolHeap {
 public:
  // `segment_bytes`: minimum allocation without virtual memory management.
  PoolHeap(PoolSpace& space, PoolStreams& streams, std::size_t segment_bytes);
  ~PoolHeap();
  PoolHeap(const PoolHeap&) = delete;
  PoolHeap& operator=(const PoolHeap&) = delete;

  struct Request {
    PoolArena* arena;
    PoolStream* stream;
    std::size_t bytes;            // a multiple of kPoolAlignment
    std::size_t alignment_bytes;  // kPoolAlignment or the size of a chunk
  };

  // The best hole that needs no wait: last used by the request's stream, or by none. All three
  // return a used range whose home is the request's stream, or nullptr.
  PoolRange* fit(const Request& request);
  // The best hole of any other stream, after making the request's stream wait for it.
  PoolRange* fit_foreign(const Request& request);
  // Maps chunks: spare ones, then new ones within the quota.
  PoolRange* grow(const Request& request);
  // The chunks grow() lacks beyond spare and creatable ones.
  [[nodiscard]] std::size_t shortage(const Request& request) const;

  // Frees the used range, ordered after its stream's work so far.
  void give_back(PoolRange* range) noexcept;

  // Waits for the stream; its holes then belong to no stream.
  void settle(PoolStream* stream, const PoolWait& wait);
  // The streams with holes in the arena, in order.
  [[nodiscard]] std::vector<PoolStream*> streams_of(const PoolArena& arena) const;
  // Retags holes of dead streams whose work is done.
  void release_dead();

  // Unmaps up to `num` chunks of holes without a stream; without virtual memory management,
  // releases allocations that are entirely free. Returns the number of chunks.
  std::size_t reclaim(PoolArena& arena, std::size_t num);
  // The number of chunks reclaim() could take from holes last used by `stream`.
  [[nodiscard]] std::size_t num_reclaimable(const PoolArena& arena, const PoolStream* stream) const;
  // Moves up to `num` whole free chunks to the other arena, whatever stream used them last. Without
  // virtual memory management, all in one contiguous range or none. Returns the number.
  std::size_t donate(PoolArena& from, PoolArena& to, std::size_t num);
  // `num` chunks, spare or new, as a hole of the arena. False: the quota or the device forbids it.
  bool supply(PoolArena& arena, std::size_t num);
  // Transfers everything `from` owns to the other arena.
  void dissolve(PoolArena& from, PoolArena& into) noexcept;

  // The whole chunks within a used range: what eviction can unmap.
  struct Inner {
    PoolDevice::Address address;
    std::size_t num_chunks;
  };
  [[nodiscard]] Inner inner(const PoolRange& range) const noexcept;
  // Reserves descriptors for give_back() of detached ranges, and undoes that.
  void prepare_detach(std::size_t num_ranges) {
    ensure(2 * num_ranges);
    num_kept_ += 2 * num_ranges;
  }
  void cancel_detach(std::size_t num_ranges) noexcept { num_kept_ -= 2 * num_ranges; }
  // Unmaps them, after prepare_detach(); the device must be done with them.
  void detach(PoolRange& range) noexcept;
  // Maps spare chunks there again. False: the device cannot.
  bool attach(PoolRange& range);

  [[nodiscard]] std::size_t largest_hole(const PoolArena& arena) const noexcept;

 private:
  struct Growth {
    PoolRange* gap = nullptr;         // a void; nullptr: a new region is needed
    PoolDevice::Address address = 0;  // where to map
    std::size_t num_chunks = 0;
  };
  [[nodiscard]] Growth plan(const Request& request) const;
  void improve(Growth& best, PoolRange* gap, const Request& request) const;
  PoolRange* grow_allocation(const Request& request);
  PoolRange* add_region(std::size_t bytes);
  PoolRange* map_part(PoolRange* gap, PoolDevice::Address address, std::size_t num,
                      PoolArena& arena, PoolStream* stream);

  PoolRange* best_hole(const Request& request, PoolStream* stream) const;
  PoolRange* carve(PoolRange* hole, const Request& request);
  [[nodiscard]] PoolRange* find_chunks(const PoolArena& arena, PoolStream* stream) const;
  [[nodiscard]] PoolRange* find_largest(const PoolArena& arena) const;
  PoolRange* isolate(PoolRange* range, PoolDevice::Address address, std::size_t bytes) noexcept;
  std::size_t reclaim_allocations(PoolArena& arena, std::size_t num);
  PoolRange* split(PoolRange* range, PoolDevice::Address at) noexcept;
  void join(PoolRange* range, PoolRange* next) noexcept;
  [[nodiscard]] static bool can_join(const PoolRange* range, const PoolRange* next) noexcept;
  void remove(PoolRange* range) noexcept;
  PoolRange* insert_hole(PoolRange* range) noexcept;
  void insert_void(PoolRange* range) noexcept;
  void link_hole(PoolRange* range) noexcept;
  void tag(PoolRange* range, PoolStream* stream) noexcept;
  template <class Predicate>
  void retag_holes(Predicate is_over) noexcept;
  void join_all() noexcept;

  // Descriptors: ensure() may throw, take() then does not.
  void ensure(std::size_t num);
  PoolRange* take() noexcept;
  void recycle(PoolRange* range) noexcept;

  PoolSpace& space_;
  PoolStreams& streams_;
  const std::size_t segment_bytes_;
  PoolRangeSet voids_;
  PoolRange* recycled_ = nullptr;
  std::size_t num_recycled_ = 0;
  std::size_t num_kept_ = 0;  // descriptors reserved for evicted ranges
  std::uint64_t num_frees_ = 0;
};

}  // namespace gpk::runtime
