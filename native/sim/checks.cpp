#include "sim/checks.h"

#include <algorithm>
#include <bit>

#include "sim/specials.h"
#include "sim/undefined.h"

namespace gpk::sim {
namespace {

std::uint16_t thread_of(const Warp& warp, unsigned lane) {
  return static_cast<std::uint16_t>(warp.index * kLanes + lane + 1);
}

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

enum class Conflict { kNone, kReadAfterWrite, kWriteAfterWrite, kWriteAfterRead };

// Two threads of a warp are ordered by a warp-wide operation, others by a barrier.
bool unordered(const Warp& warp, std::uint16_t self, std::uint16_t other, std::uint32_t sync) {
  if (other == 0 || other == self) return false;
  return (other - 1) / kLanes != warp.index || sync == warp.sync_epoch;
}

Conflict touch(Shadow::Byte& byte, std::uint32_t epoch, const Warp& warp, std::uint16_t self,
               bool load, bool same_value, std::uint16_t& other) {
  Conflict conflict = Conflict::kNone;
  if (byte.write_epoch == epoch && unordered(warp, self, byte.writer, byte.write_sync) &&
      !(!load && same_value)) {
    conflict = load ? Conflict::kReadAfterWrite : Conflict::kWriteAfterWrite;
    other = byte.writer;
  }
  if (load) {
    if (byte.read_epoch != epoch) byte.reader = byte.other_reader = 0;
    byte.read_epoch = epoch;
    if (byte.reader == 0)
      byte.reader = self;
    else if ((byte.reader - 1) / kLanes != warp.index)
      byte.other_reader = self;
    else if (byte.reader != self)
      byte.reader = self;
    byte.read_sync = warp.sync_epoch;
    return conflict;
  }
  if (conflict == Conflict::kNone && byte.read_epoch == epoch && !same_value) {
    for (const std::uint16_t reader : {byte.reader, byte.other_reader})
      if (unordered(warp, self, reader, byte.read_sync)) {
        conflict = Conflict::kWriteAfterRead;
        other = reader;
      }
  }
  byte.written = true;
  byte.write_epoch = epoch;
  byte.writer = self;
  byte.write_sync = warp.sync_epoch;
  return conflict;
}

}  // namespace

namespace {

void undefined_elements(const Op& op, Warp& warp, unsigned lane, std::uint32_t elements,
                        bool is_matrix, const std::string& text) {
  const auto& writes = warp.grid->program->instructions[op.location].writes;
  if (is_matrix) {  // a row belongs to several lanes
    if (lane / 8 < writes.size()) mark_undefined(warp, op, writes[lane / 8].cell, kFull, text);
    return;
  }
  const std::int32_t* cells = warp.frame->function->args.data() + op.args;
  for (unsigned e = 0; e < op.count; ++e)
    if ((elements >> e & 1) != 0) mark_undefined(warp, op, cells[e], 1u << lane, text);
}

}  // namespace

void check_access(Space space, bool load, const Op& op, Warp& warp, std::uint32_t mask,
                  const std::uint64_t (&addresses)[kLanes], unsigned bytes) {
  const std::int32_t* cells = warp.frame->function->args.data() + op.args;
  const bool is_matrix = bytes != unsigned{op.bytes} * op.count;  // a row of ldmatrix
  const unsigned element_bytes = is_matrix ? bytes : op.bytes;
  for_lanes(mask, [&](unsigned lane) {
    const Place place = shared_place(space, warp, addresses[lane], bytes, lane);
    if (place.block == nullptr) return;
    Shadow& shadow = *place.block->shadow;
    const std::uint16_t self = thread_of(warp, lane);
    unsigned unwritten = 0;  // bytes of the element
    std::uint32_t elements = 0;
    Conflict conflict = Conflict::kNone;
    std::uint16_t other = 0;
    for (unsigned i = 0; i < bytes; ++i) {
      Shadow::Byte& byte = shadow.bytes[place.offset + i];
      if (i % element_bytes == 0) unwritten = 0;
      if (load && !byte.written && ++unwritten == element_bytes)
        elements |= 1u << (i / element_bytes);
      bool same_value = false;
      if (!load)
        same_value = warp.source<std::byte>(
                         cells[i / op.bytes])[std::size_t{op.cell_bytes} * lane + i % op.bytes] ==
                     place.block->shared.data[place.offset + i];
      // Blocks of a cluster are ordered by more than this block's barriers.
      if (place.block != warp.block) {
        byte.written = byte.written || !load;
        continue;
      }
      const Conflict one = touch(byte, shadow.epoch, warp, self, load, same_value, other);
      if (conflict == Conflict::kNone) conflict = one;
    }
    if (elements != 0 && warp.grid->options->check)
      undefined_elements(op, warp, lane, elements, is_matrix,
                         "read of " + at_text(place.offset, bytes) + " before it is written");
    if (conflict == Conflict::kNone || !warp.grid->options->check_races) return;
    const Dim3 thread = thread_at(*warp.grid, other - 1u);
    const char* what = conflict == Conflict::kReadAfterWrite ? "read of what another thread wrote"
                       : conflict == Conflict::kWriteAfterWrite
                           ? "write over what another thread wrote"
                           : "write over what another thread read";
    warp.grid->report(warp, op, lane, "race",
                      std::string(what) + " (thread " + std::to_string(thread.x) + ", " +
                          std::to_string(thread.y) + ", " + std::to_string(thread.z) +
                          ") with no barrier between them: " + at_text(place.offset, bytes),
                      false);
  });
}

void mark_written(Block& block, std::size_t offset, std::size_t bytes) {
  if (!block.shadow || offset + bytes > block.shadow->bytes.size()) return;
  for (std::size_t i = offset; i < offset + bytes; ++i) {
    block.shadow->bytes[i].written = true;
    block.shadow->bytes[i].write_epoch = 0;
    block.shadow->bytes[i].read_epoch = 0;
  }
}

void mark_atomic(Warp& warp, const std::byte* at, std::size_t bytes) {
  for (const auto& block : warp.block->cluster->blocks)
    if (at >= block->shared.data && at < block->shared.data + block->shared.size) {
      const auto offset = static_cast<std::size_t>(at - block->shared.data);
      mark_written(*block, offset, bytes);
    }
}

void barrier_passed(Block& block) {
  if (block.shadow) ++block.shadow->epoch;
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
