#include "sim/checks.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/races.h"
#include "sim/specials.h"

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

}  // namespace

namespace {

bool all_written(const Block& block, std::size_t offset, std::size_t bytes) {
  const std::uint8_t* written = block.shadow->written.data() + offset;
  return std::memchr(written, 0, bytes) == nullptr;
}

// Padding of structures is copied along with them: only elements without any written byte count.
void check_local(Space space, bool load, const Op& op, Warp& warp, unsigned lane,
                 std::uint64_t address, unsigned bytes) {
  if (space != Space::kLocal &&
      !(space == Space::kGeneric && (address & kWindowMask) == kLocalWindow))
    return;
  const auto offset = static_cast<std::uint32_t>(address);
  if (offset > warp.local_bytes || bytes > warp.local_bytes - offset) return;
  std::uint8_t* written = warp.local_written.data() + warp.local_bytes * lane + offset;
  if (!load) {
    std::memset(written, 1, bytes);
    return;
  }
  for (unsigned at = 0; at < bytes; at += op.bytes)
    if (std::memchr(written + at, 1, op.bytes) == nullptr)
      return warp.grid->report(warp, op, lane, "uninitialised",
                               "read of " + std::to_string(op.bytes) + " bytes at byte " +
                                   std::to_string(offset + at) +
                                   " of local memory before it is written",
                               false);
}

bool is_global(Space space, std::uint64_t address) {
  return space == Space::kGlobal || (space == Space::kGeneric && (address & kWindowMask) == 0);
}

}  // namespace

void check_read(Warp& warp, const Op& op, unsigned lane, Block& owner, std::size_t offset,
                std::size_t bytes) {
  if (!warp.grid->options->check || offset < kSharedReserved ||
      offset + bytes > owner.shared.size || all_written(owner, offset, bytes))
    return;
  warp.grid->report(
      warp, op, lane, "uninitialised",
      "read of " + at_text(offset, static_cast<unsigned>(bytes)) + " before it is written", false);
}

void check_access(Space space, bool load, const Op& op, Warp& warp, std::uint32_t mask,
                  const std::uint64_t (&addresses)[kLanes], unsigned bytes, bool values) {
  const std::int32_t* cells = warp.frame->function->args.data() + op.args;
  std::byte fresh[64];
  const bool strong = (op.flags & kVolatile) != 0;
  for_lanes(mask, [&](unsigned lane) {
    const std::uint64_t address = addresses[lane];
    if (!warp.local_written.empty() && values)
      check_local(space, load, op, warp, lane, address, bytes);
    Access access{warp, op, lane, !load, strong};
    if (!load && values && warp.clock && bytes <= sizeof fresh) {
      for (unsigned k = 0; k < op.count; ++k)
        std::memcpy(fresh + k * op.bytes,
                    warp.source<std::byte>(cells[k]) + std::size_t{op.cell_bytes} * lane, op.bytes);
      access.fresh = fresh;
    }
    if (is_global(space, address)) {
      if (!warp.clock || !in_allocation(warp, address, bytes)) return;
      race_global(access, address, bytes);
      if (strong)
        flag_access(warp, reinterpret_cast<const std::byte*>(address), false, op.flags, load,
                    !load);
      return;
    }
    const Place place = shared_place(space, warp, address, bytes, lane);
    if (place.block == nullptr) return;
    if (load)
      check_read(warp, op, lane, *place.block, place.offset, bytes);
    else
      std::memset(place.block->shadow->written.data() + place.offset, 1, bytes);
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

void watch_op(Warp& warp, const Op& op, std::uint32_t mask) {
  if (warp.grid->options->counts) count_op(warp, op, mask);
  if (warp.clock && !warp.clock->accumulators.empty()) check_registers(warp, op, mask);
}

void count_op(Warp& warp, const Op& op, std::uint32_t mask) {
  LineCounts& counts = warp.counts[op.location];
  ++counts.warp_ops;
  counts.lane_ops += static_cast<unsigned>(std::popcount(mask));
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
