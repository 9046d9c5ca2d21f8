#include "sim/checks.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/atomics.h"
#include "sim/races.h"
#include "sim/specials.h"
#include "sim/trace.h"
#include "sim/undefined.h"

namespace gpk::sim {
namespace {

struct Place {
  Block* block;
  std::size_t offset;
};

// Where in shared memory an access lies; block nullptr: elsewhere, or out of bounds.
Place shared_place(Space space, Warp& warp, std::uint64_t address, unsigned bytes, unsigned lane) {
  if (space == Space::kGeneric) {
    if ((address & kWindowMask) != kSharedWindow) return {nullptr, 0};
  } else if (space != Space::kShared && space != Space::kSharedCluster) {
    return {nullptr, 0};
  }
  Block& block = shared_owner(warp, static_cast<std::uint32_t>(address), lane);
  const std::size_t offset = address & ((1u << kSharedOffsetBits) - 1);
  if (offset < kSharedReserved || offset + bytes > block.shared.size || !block.shadow)
    return {nullptr, 0};
  return {&block, offset};
}

std::string at_text(std::size_t offset, unsigned bytes) {
  return std::to_string(bytes) + " bytes at byte " + std::to_string(offset - kSharedReserved) +
         " of shared memory";
}

// Elements none of whose bytes was written: structures are copied with their padding.
std::uint32_t unwritten_elements(const std::uint8_t* written, unsigned bytes,
                                 unsigned element_bytes) {
  std::uint32_t elements = 0;
  if (std::memchr(written, 0, bytes) == nullptr) return elements;
  for (unsigned at = 0; at < bytes; at += element_bytes)
    if (std::memchr(written + at, 1, element_bytes) == nullptr)
      elements |= 1u << (at / element_bytes);
  return elements;
}

void mark_elements(const Op& op, Warp& warp, unsigned lane, std::uint32_t elements, bool is_matrix,
                   const std::string& text) {
  const auto& writes = warp.grid->program->instructions[op.location].writes;
  if (is_matrix) {  // a row belongs to several lanes
    if (lane / 8 < writes.size()) mark_undefined(warp, op, writes[lane / 8].cell, kFull, text);
    return;
  }
  const std::int32_t* cells = warp.frame->function->args.data() + op.args;
  for (unsigned e = 0; e < op.count; ++e)
    if ((elements >> e & 1) != 0) mark_undefined(warp, op, cells[e], 1u << lane, text);
}

void check_local(bool load, const Op& op, Warp& warp, unsigned lane, std::uint32_t offset,
                 unsigned bytes) {
  if (warp.local_written.empty() || offset > warp.local_bytes || bytes > warp.local_bytes - offset)
    return;
  std::uint8_t* written = warp.local_written.data() + warp.local_bytes * lane + offset;
  if (!load) {
    std::memset(written, 1, bytes);
  } else if (const std::uint32_t elements = unwritten_elements(written, bytes, op.bytes)) {
    mark_elements(op, warp, lane, elements, false,
                  "read of " + std::to_string(bytes) + " bytes at byte " + std::to_string(offset) +
                      " of local memory before it is written");
  }
}

// Where a fresh range holds the whole access.
const GlobalMemory::Fresh* fresh_at(const Warp& warp, std::uint64_t address, std::size_t bytes) {
  const auto* fresh = warp.grid->memory->fresh(address);
  return fresh != nullptr && bytes <= fresh->bytes - (address - fresh->base) ? fresh : nullptr;
}

// As unwritten_elements; other host threads may write meanwhile.
std::uint32_t unwritten_global(const GlobalMemory::Fresh& fresh, std::uint64_t address,
                               unsigned bytes, unsigned element_bytes) {
  std::uint8_t written[64];
  for (unsigned i = 0; i < bytes; ++i)
    written[i] = __atomic_load_n(fresh.written + (address - fresh.base) + i, __ATOMIC_RELAXED);
  return unwritten_elements(written, bytes, element_bytes);
}

std::string fresh_text(const Warp& warp, const GlobalMemory::Fresh& fresh, std::uint64_t address,
                       unsigned bytes) {
  std::string name = fresh.name;
  std::uint64_t offset = fresh.offset + (address - fresh.base);
  if (name.empty()) {
    const auto allocation = warp.grid->memory->find(address);
    name = allocation ? allocation->name : "global memory";
    if (allocation) offset = address - allocation->base;
  }
  return "read of " + std::to_string(bytes) + " bytes at byte " + std::to_string(offset) + " of " +
         name + " before it is written";
}

void check_global(bool load, const Op& op, Warp& warp, unsigned lane, std::uint64_t address,
                  unsigned bytes) {
  if (!load) return mark_global_written(warp, address, bytes);
  const auto* fresh = fresh_at(warp, address, bytes);
  if (fresh == nullptr) return;
  if (const std::uint32_t elements = unwritten_global(*fresh, address, bytes, op.bytes))
    mark_elements(op, warp, lane, elements, false, fresh_text(warp, *fresh, address, bytes));
}

// The result of an exchange alone depends on what was there; it is judged as that of a load.
void check_global_atomic(const Op& op, Warp& warp, unsigned lane, std::uint64_t address,
                         unsigned bytes) {
  const auto* fresh = fresh_at(warp, address, bytes);
  if (fresh != nullptr && unwritten_global(*fresh, address, bytes, bytes) != 0) {
    const std::string text = fresh_text(warp, *fresh, address, bytes);
    if (static_cast<Atomic>(op.mode) != Atomic::kExch)
      warp.grid->report(warp, op, lane, "uninitialised", text, false);
    else if (op.dst != kNoCell)
      mark_undefined(warp, op, op.dst, 1u << lane, text);
  }
  mark_global_written(warp, address, bytes);
}

bool is_global(Space space, std::uint64_t address) {
  return space == Space::kGlobal || (space == Space::kGeneric && (address & kWindowMask) == 0);
}

bool is_local(Space space, std::uint64_t address) {
  return space == Space::kLocal ||
         (space == Space::kGeneric && (address & kWindowMask) == kLocalWindow);
}

bool stores_same(const Op& op, const Warp& warp, unsigned lane, unsigned other) {
  const std::int32_t* cells = warp.frame->function->args.data() + op.args;
  for (unsigned k = 0; k < op.count; ++k) {
    const auto* values = warp.source<std::byte>(cells[k]);
    if (std::memcmp(values + std::size_t{op.cell_bytes} * lane,
                    values + std::size_t{op.cell_bytes} * other, op.bytes) != 0)
      return false;
  }
  return true;
}

// Lanes of a store whose value an earlier one stores at the same address: no race.
std::uint32_t repeated_stores(const Op& op, const Warp& warp, std::uint32_t mask,
                              const std::uint64_t (&addresses)[kLanes]) {
  std::uint32_t repeated = 0;
  for_lanes(mask, [&](unsigned lane) {
    if ((addresses[lane] & kWindowMask) == kLocalWindow) return;  // each lane has its own
    std::uint32_t equal = 0;
    for (unsigned other = 0; other < lane; ++other)
      equal |= static_cast<std::uint32_t>(addresses[other] == addresses[lane]) << other;
    for_lanes(equal & mask, [&](unsigned other) {
      if (stores_same(op, warp, lane, other)) repeated |= 1u << lane;
    });
  });
  return repeated;
}

// What the lane is about to store, element after element.
const std::byte* fresh_values(const Op& op, const Warp& warp, unsigned lane, std::byte* into) {
  const std::int32_t* cells = warp.frame->function->args.data() + op.args;
  for (unsigned k = 0; k < op.count; ++k)
    std::memcpy(into + k * op.bytes,
                warp.source<std::byte>(cells[k]) + std::size_t{op.cell_bytes} * lane, op.bytes);
  return into;
}

}  // namespace

void check_read(Warp& warp, const Op& op, unsigned lane, Block& owner, std::size_t offset,
                std::size_t bytes) {
  if (!warp.grid->options->check || offset < kSharedReserved ||
      offset + bytes > owner.shared.size ||
      std::memchr(owner.shadow->written.data() + offset, 0, bytes) == nullptr)
    return;
  warp.grid->report(
      warp, op, lane, "uninitialised",
      "read of " + at_text(offset, static_cast<unsigned>(bytes)) + " before it is written", false);
}

void check_access(Space space, bool load, const Op& op, Warp& warp, std::uint32_t mask,
                  const std::uint64_t (&addresses)[kLanes], unsigned bytes, bool is_matrix) {
  std::byte fresh[64];
  const bool strong = (op.flags & kVolatile) != 0;
  const bool check = warp.grid->options->check;
  if (!load && !is_matrix && warp.clock && space != Space::kLocal)
    mask &= ~repeated_stores(op, warp, mask, addresses);
  for_lanes(mask, [&](unsigned lane) {
    const std::uint64_t address = addresses[lane];
    if (is_local(space, address))
      return check_local(load, op, warp, lane, static_cast<std::uint32_t>(address), bytes);
    Access access{warp, op, lane, !load, strong};
    if (!load && !is_matrix && warp.clock && bytes <= sizeof fresh)
      access.fresh = fresh_values(op, warp, lane, fresh);
    if (is_global(space, address)) {
      if (check) check_global(load, op, warp, lane, address, bytes);
      if (!warp.clock || !in_allocation(warp, address, bytes)) return;
      race_global(access, address, bytes);
      if (strong)
        flag_access(warp, reinterpret_cast<const std::byte*>(address), false, op.flags, load,
                    !load);
      return;
    }
    const Place place = shared_place(space, warp, address, bytes, lane);
    if (place.block == nullptr) return;
    std::uint8_t* written = place.block->shadow->written.data() + place.offset;
    if (!load)
      std::memset(written, 1, bytes);
    else if (const std::uint32_t elements =
                 check ? unwritten_elements(written, bytes, is_matrix ? bytes : op.bytes) : 0)
      mark_elements(op, warp, lane, elements, is_matrix,
                    "read of " + at_text(place.offset, bytes) + " before it is written");
    if (!warp.clock) return;
    race_shared(access, *place.block, place.offset, bytes);
    if (strong)
      flag_access(warp, place.block->shared.data + place.offset, true, op.flags, load, !load);
  });
}

void check_atomic(Space space, const Op& op, Warp& warp, unsigned lane, std::uint64_t address,
                  unsigned bytes) {
  const Access access{warp, op, lane, true, true};
  if (is_global(space, address)) {
    if (warp.grid->options->check) check_global_atomic(op, warp, lane, address, bytes);
    if (!warp.clock) return;
    race_global(access, address, bytes);
    return flag_access(warp, reinterpret_cast<const std::byte*>(address), false, op.flags, true,
                       true);
  }
  const Place place = shared_place(space, warp, address, bytes, lane);
  if (place.block == nullptr) return;
  check_read(warp, op, lane, *place.block, place.offset, bytes);
  mark_written(*place.block, place.offset, bytes);
  if (!warp.clock) return;
  race_shared(access, *place.block, place.offset, bytes);
  flag_access(warp, place.block->shared.data + place.offset, true, op.flags, true, true);
}

void mark_written(Block& block, std::size_t offset, std::size_t bytes) {
  if (!block.shadow || offset + bytes > block.shadow->written.size()) return;
  std::memset(block.shadow->written.data() + offset, 1, bytes);
}

void mark_global_written(Warp& warp, std::uint64_t address, std::size_t bytes) {
  const std::uint64_t end = address + bytes;
  while (address < end) {
    const auto* fresh = warp.grid->memory->fresh(address);
    if (fresh == nullptr) return;
    const std::uint64_t until = std::min<std::uint64_t>(end, fresh->base + fresh->bytes);
    for (; address < until; ++address)
      __atomic_store_n(fresh->written + (address - fresh->base), 1, __ATOMIC_RELAXED);
  }
}

void watch_op(Warp& warp, const Op& op, std::uint32_t mask) {
  if (warp.grid->options->counts) {
    LineCounts& counts = warp.counts[op.location];
    ++counts.warp_ops;
    counts.lane_ops += static_cast<unsigned>(std::popcount(mask));
  }
  if (warp.clock && !warp.clock->accumulators.empty()) check_registers(warp, op, mask);
  if (warp.undefined) track_undefined(warp, op, mask);
  if (warp.tracer != nullptr) trace_op(warp, op, mask);
}

void count_access(Space space, const Op& op, Warp& warp, std::uint32_t mask,
                  const std::uint64_t (&addresses)[kLanes], unsigned bytes) {
  LineCounts& counts = warp.counts[op.location];
  if (space == Space::kGlobal ||
      (space == Space::kGeneric && (addresses[std::countr_zero(mask)] & kWindowMask) == 0)) {
    std::vector<std::uint64_t> sectors;
    std::vector<std::uint64_t> wanted;
    for_lanes(mask, [&](unsigned lane) {
      for (std::uint64_t at = addresses[lane] / 32; at <= (addresses[lane] + bytes - 1) / 32; ++at)
        sectors.push_back(at);
      wanted.push_back(addresses[lane]);
    });
    std::sort(sectors.begin(), sectors.end());
    std::sort(wanted.begin(), wanted.end());
    const auto distinct =
        static_cast<std::uint64_t>(std::unique(wanted.begin(), wanted.end()) - wanted.begin());
    counts.sectors +=
        static_cast<std::uint64_t>(std::unique(sectors.begin(), sectors.end()) - sectors.begin());
    counts.ideal_sectors += (distinct * bytes + 31) / 32;
    return;
  }
  if (space != Space::kShared && space != Space::kSharedCluster &&
      !(space == Space::kGeneric &&
        (addresses[std::countr_zero(mask)] & kWindowMask) == kSharedWindow))
    return;
  // Passes of 128 bytes: lanes that together ask for no more than that go together.
  const unsigned lanes_per_pass = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  for (unsigned first = 0; first < kLanes; first += lanes_per_pass) {
    std::vector<std::uint64_t> words[32];
    unsigned worst = 0;
    for (unsigned lane = first; lane < first + lanes_per_pass; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      for (std::uint64_t word = addresses[lane] / 4; word <= (addresses[lane] + bytes - 1) / 4;
           ++word) {
        auto& bank = words[word % 32];
        if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
        worst = std::max(worst, static_cast<unsigned>(bank.size()));
      }
    }
    if (worst > 1) counts.bank_conflicts += worst - 1;
  }
}

}  // namespace gpk::sim
