#include "sim/async_copy.h"

#include <algorithm>
#include <array>

#include "sim/atomics.h"
#include "sim/checks.h"
#include "sim/machine.h"
#include "sim/mbarrier.h"
#include "sim/memory.h"
#include "sim/races.h"
#include "sim/tensor_map.h"
#include "sim/types.h"

namespace gpk::sim {

void copy_async(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::int32_t* offsets = warp.frame->function->args.data() + op.args;
  for_lanes(mask, [&](unsigned lane) {
    const auto to = static_cast<std::uint32_t>(lane_address(op, warp, op.a, lane)) +
                    static_cast<std::uint32_t>(offsets[0]);
    const std::uint64_t from = warp.source<std::uint64_t>(op.b)[lane] +
                               static_cast<std::uint64_t>(std::int64_t{offsets[1]});
    std::uint32_t bytes = static_cast<std::uint32_t>(op.imm);
    if (op.c != kNoCell) bytes = std::min(bytes, warp.source<std::uint32_t>(op.c)[lane]);
    if (to % op.imm != 0 || from % op.imm != 0)
      throw Fault{
          "misaligned", lane,
          "cp.async of " + std::to_string(op.imm) + " bytes from " + hex(from) + " to " + hex(to)};
    std::byte* target = shared_bytes(warp, to, op.imm, lane);
    if (warp.clock) {
      Access write{warp, op, lane, true};
      write.stamp = async_stamp(write, AsyncKind::kCopy);
      race_shared(write, *warp.block, static_cast<std::size_t>(target - warp.block->shared.data),
                  op.imm);
      if (bytes > 0 && (from & kWindowMask) == 0 && in_allocation(warp, from, bytes))
        race_global({warp, op, lane}, from, bytes);
    }
    if (bytes > 0) std::memcpy(target, generic_bytes(warp, from, bytes, lane), bytes);
    std::memset(target + bytes, 0, op.imm - bytes);
    if (warp.block->shadow)
      mark_written(*warp.block, static_cast<std::size_t>(target - warp.block->shared.data), op.imm);
  });
}

void copy_arrive(const Op& op, Warp& warp, std::uint32_t mask) {
  for_lanes(mask, [&](unsigned lane) {
    const auto address = static_cast<std::uint32_t>(lane_address(op, warp, op.a, lane) + op.imm);
    if (warp.clock) bind_copies(warp, lane, shared_bytes(warp, address, 8, lane));
    // Without noinc the arrival is announced and done at once, which changes nothing.
    if (op.mode != 0) mbarrier_arrive(warp, address, 1, lane);
  });
}

namespace {

constexpr unsigned kElementBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

std::uint64_t address_of(const Warp& warp, std::int32_t cell, std::int32_t offset, bool wide,
                         unsigned lane) {
  const std::uint64_t base =
      wide ? warp.source<std::uint64_t>(cell)[lane] : warp.source<std::uint32_t>(cell)[lane];
  return base + static_cast<std::uint64_t>(std::int64_t{offset});
}

void combine(std::byte* to, const std::byte* from, std::size_t bytes, int reduction, Type type) {
  if (reduction < 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  const unsigned size = bytes_of(type);
  for (std::size_t i = 0; i + size <= bytes; i += size) {
    std::uint64_t old = 0, value = 0;
    std::memcpy(&old, to + i, size);
    std::memcpy(&value, from + i, size);
    const auto kind = static_cast<Atomic>(reduction);
    if (size == 4) {
      auto* word = reinterpret_cast<std::uint32_t*>(to + i);
      std::uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
      while (!__atomic_compare_exchange_n(
          word, &seen, static_cast<std::uint32_t>(atomic_result(kind, type, seen, value, 0)), false,
          __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
      }
      continue;
    }
    old = atomic_result(kind, type, old, value, 0);
    std::memcpy(to + i, &old, size);
  }
}

Type type_of_map(const SimTensorMap& map) {
  static constexpr Type kTypes[] = {Type::kU8,  Type::kU16, Type::kU32, Type::kS32, Type::kU64,
                                    Type::kS64, Type::kF16, Type::kF32, Type::kF64, Type::kBf16,
                                    Type::kF32, Type::kF32, Type::kF32};
  return kTypes[map.dtype];
}

class TensorCopy {
 public:
  TensorCopy(Warp& warp, const BulkCopy& copy, const SimTensorMap& map,
             std::array<std::int32_t, 5> start, unsigned lane)
      : warp_(warp),
        copy_(copy),
        map_(map),
        start_(start),
        lane_(lane),
        element_(kElementBytes[map.dtype]) {}

  std::size_t box_bytes() const {
    std::size_t bytes = element_;
    for (unsigned d = 0; d < map_.rank; ++d) bytes *= map_.box[d];
    return bytes;
  }

  // Between the tensor and `shared`, the shared address of a block. global: what the rows in global
  // memory are remembered as.
  void run(std::uint32_t shared, const Access* global) {
    global_ = global;
    const std::size_t inner = std::size_t{map_.box[0]} * element_;
    const std::size_t rows = box_bytes() / inner;
    for (std::size_t r = 0; r < rows; ++r) row(r, shared + static_cast<std::uint32_t>(r * inner));
  }

 private:
  void row(std::size_t index, std::uint32_t shared) {
    std::uint64_t address = map_.address;
    bool inside = true;
    for (unsigned d = 1; d < map_.rank; ++d) {
      const auto step = static_cast<std::int64_t>(index % map_.box[d]) * map_.element_strides[d];
      index /= map_.box[d];
      const std::int64_t at = start_[d] + step;
      inside = inside && at >= 0 && static_cast<std::uint64_t>(at) < map_.sizes[d];
      address += static_cast<std::uint64_t>(at) * map_.pitches[d - 1];
    }
    // Runs of 16 bytes keep their order under every swizzle.
    const unsigned stride = map_.element_strides[0];
    const unsigned per_run = std::max(1u, 16 / element_);
    for (unsigned i = 0; i < map_.box[0]; i += per_run) {
      const unsigned count = std::min<unsigned>(per_run, map_.box[0] - i);
      const std::uint32_t to = swizzled(shared + i * element_);
      std::byte* data = shared_bytes(warp_, to, std::size_t{count} * element_, lane_);
      const std::int64_t first = start_[0] + static_cast<std::int64_t>(i) * stride;
      if (inside && stride == 1 && first >= 0 &&
          static_cast<std::uint64_t>(first) + count <= map_.sizes[0]) {
        move(address + static_cast<std::uint64_t>(first) * element_, data,
             std::size_t{count} * element_);
        continue;
      }
      for (unsigned k = 0; k < count; ++k) {
        const std::int64_t at = first + static_cast<std::int64_t>(k) * stride;
        if (inside && at >= 0 && static_cast<std::uint64_t>(at) < map_.sizes[0])
          move(address + static_cast<std::uint64_t>(at) * element_, data + k * element_, element_);
        else if (copy_.direction == BulkCopy::kGlobalToShared)
          fill(data + k * element_);
      }
    }
  }

  void move(std::uint64_t global, std::byte* shared, std::size_t bytes) {
    std::byte* data = global_bytes(warp_, global, bytes, lane_);
    if (global_ != nullptr) race_global(*global_, global, bytes);
    if (copy_.direction == BulkCopy::kGlobalToShared)
      std::memcpy(shared, data, bytes);
    else
      combine(data, shared, bytes, copy_.reduction, type_of_map(map_));
    if (warp_.block->shadow && copy_.direction != BulkCopy::kGlobalToShared)
      mark_global_written(warp_, global, bytes);
  }

  void fill(std::byte* at) const {
    std::uint64_t bits = 0;
    if (map_.fill != 0)
      bits = map_.dtype == 8 ? 0x7fffffffffffffff : element_ == 4 ? 0x7fffffff : 0x7fff;
    std::memcpy(at, &bits, element_);
  }

  std::uint32_t swizzled(std::uint32_t address) const {
    static constexpr std::uint32_t kBits[] = {0, 1, 3, 7};
    return address ^ (address >> 7 & kBits[map_.swizzle]) << 4;
  }

  Warp& warp_;
  const BulkCopy& copy_;
  const SimTensorMap& map_;
  std::array<std::int32_t, 5> start_;
  unsigned lane_;
  unsigned element_;
  const Access* global_ = nullptr;
};

// Blocks a copy goes to: ranks in the cluster, plus one; 0 is as addressed.
std::vector<std::uint32_t> targets_of(const Warp& warp, const BulkCopy& copy, unsigned lane) {
  if (copy.multicast == kNoCell) return {0};
  const std::uint16_t mask = warp.source<std::uint16_t>(copy.multicast)[lane];
  std::vector<std::uint32_t> out;
  for (std::uint32_t rank = 0; rank < 16; ++rank)
    if ((mask >> rank & 1) != 0) out.push_back(rank + 1);
  return out;
}

std::uint32_t in_block(std::uint64_t address, std::uint32_t target) {
  const auto low = static_cast<std::uint32_t>(address);
  return target == 0 ? low : (low & ((1u << kSharedOffsetBits) - 1)) | target << kSharedOffsetBits;
}

// What the checks need to know of a bulk copy.
class Watch {
 public:
  Watch(const Op& op, Warp& warp, const BulkCopy& copy, unsigned lane)
      : op_(op), warp_(warp), copy_(copy), lane_(lane) {}

  // Writes shared memory, counted by a barrier.
  void fills(std::uint32_t address, std::uint32_t barrier, std::size_t bytes) const {
    if (!warp_.block->shadow) return;
    Block& owner = shared_owner(warp_, address, lane_);
    const std::size_t offset = address & kOffsetMask;
    mark_written(owner, offset, bytes);
    if (!warp_.clock) return;
    Access write{warp_, op_, lane_, true, copy_.reduction >= 0, true};
    write.stamp = mbarrier_stamp(write, shared_bytes(warp_, barrier, 8, lane_));
    race_shared(write, owner, offset, bytes);
  }
  // Reads shared memory, until its group is waited for or its barrier's phase ends.
  void drains(std::uint32_t address, std::size_t bytes, const std::uint32_t* barrier) const {
    if (!warp_.block->shadow) return;
    Block& owner = shared_owner(warp_, address, lane_);
    const std::size_t offset = address & kOffsetMask;
    check_read(warp_, op_, lane_, owner, offset, bytes);
    if (!warp_.clock) return;
    Access read{warp_, op_, lane_, false, false, true};
    read.stamp = barrier != nullptr ? mbarrier_stamp(read, shared_bytes(warp_, *barrier, 8, lane_))
                                    : async_stamp(read, AsyncKind::kBulkRead);
    race_shared(read, owner, offset, bytes);
  }
  // The side in global memory.
  Access global() const {
    const bool writes = copy_.direction == BulkCopy::kSharedToGlobal;
    Access access{warp_, op_, lane_, writes, writes && copy_.reduction >= 0, writes};
    if (writes && warp_.clock) access.stamp = async_stamp(access, AsyncKind::kBulkWrite);
    return access;
  }

 private:
  static constexpr std::uint32_t kOffsetMask = (1u << kSharedOffsetBits) - 1;
  const Op& op_;
  Warp& warp_;
  const BulkCopy& copy_;
  unsigned lane_;
};

void copy_tensor(const Op& op, const BulkCopy& copy, const std::int32_t* coordinates, Warp& warp,
                 unsigned lane) {
  const bool loads = copy.direction == BulkCopy::kGlobalToShared;
  const std::uint64_t map_at =
      loads ? address_of(warp, copy.source, copy.source_offset, copy.source_wide != 0, lane)
            : address_of(warp, copy.target, copy.target_offset, copy.target_wide != 0, lane);
  if (map_at % 64 != 0) throw Fault{"misaligned", lane, "tensor map at " + hex(map_at)};
  SimTensorMap map;
  std::memcpy(static_cast<void*>(&map), generic_bytes(warp, map_at, 128, lane), sizeof map);
  if (map.magic != SimTensorMap::kMagic || map.rank == 0 || map.rank > 5 || map.dtype >= 13 ||
      map.swizzle > 3)
    throw Fault{"invalid", lane, "no tensor map at " + hex(map_at)};
  if (map.rank != copy.rank)
    throw Fault{"invalid", lane,
                "tensor of rank " + std::to_string(map.rank) + " copied as rank " +
                    std::to_string(copy.rank)};
  if (map.interleave != 0)
    throw Fault{"invalid", lane, "interleaved tensor maps are not simulated"};
  std::array<std::int32_t, 5> start{};
  for (unsigned d = 0; d < map.rank; ++d) {
    start[d] = warp.source<std::int32_t>(coordinates[d])[lane];
    if (map.box[d] == 0 || map.element_strides[d] == 0)
      throw Fault{"invalid", lane, "empty box of a tensor map"};
  }
  TensorCopy tensor(warp, copy, map, start, lane);
  const std::uint64_t shared =
      loads ? address_of(warp, copy.target, copy.target_offset, copy.target_wide != 0, lane)
            : address_of(warp, copy.source, copy.source_offset, copy.source_wide != 0, lane);
  if (shared % 128 != 0)
    throw Fault{"misaligned", lane, "tensor copy at shared address " + hex(shared)};
  const Watch watch(op, warp, copy, lane);
  const Access global = watch.global();
  const Access* watched = warp.clock ? &global : nullptr;
  if (!loads) {
    watch.drains(static_cast<std::uint32_t>(shared), tensor.box_bytes(), nullptr);
    return tensor.run(static_cast<std::uint32_t>(shared), watched);
  }
  const std::uint64_t barrier =
      address_of(warp, copy.barrier, copy.barrier_offset, copy.barrier_wide != 0, lane);
  for (const std::uint32_t target : targets_of(warp, copy, lane)) {
    watch.fills(in_block(shared, target), in_block(barrier, target), tensor.box_bytes());
    tensor.run(in_block(shared, target), watched);
    mbarrier_complete(warp, in_block(barrier, target), tensor.box_bytes(), lane);
  }
}

void copy_plain(const Op& op, const BulkCopy& copy, Warp& warp, unsigned lane) {
  const std::uint64_t to =
      address_of(warp, copy.target, copy.target_offset, copy.target_wide != 0, lane);
  const std::uint64_t from =
      address_of(warp, copy.source, copy.source_offset, copy.source_wide != 0, lane);
  const std::uint32_t bytes = warp.source<std::uint32_t>(copy.bytes)[lane];
  if (to % 16 != 0 || from % 16 != 0 || bytes % 16 != 0)
    throw Fault{
        "misaligned", lane,
        "bulk copy of " + std::to_string(bytes) + " bytes from " + hex(from) + " to " + hex(to)};
  const auto type = static_cast<Type>(copy.type);
  const Watch watch(op, warp, copy, lane);
  if (copy.direction == BulkCopy::kSharedToGlobal) {
    const std::byte* data = shared_bytes(warp, static_cast<std::uint32_t>(from), bytes, lane);
    watch.drains(static_cast<std::uint32_t>(from), bytes, nullptr);
    if (warp.clock && in_allocation(warp, to, bytes)) race_global(watch.global(), to, bytes);
    combine(generic_bytes(warp, to, bytes, lane), data, bytes, copy.reduction, type);
    if (warp.block->shadow) mark_global_written(warp, to, bytes);
    return;
  }
  const std::byte* data = copy.direction == BulkCopy::kGlobalToShared
                              ? generic_bytes(warp, from, bytes, lane)
                              : shared_bytes(warp, static_cast<std::uint32_t>(from), bytes, lane);
  const std::uint64_t barrier =
      address_of(warp, copy.barrier, copy.barrier_offset, copy.barrier_wide != 0, lane);
  if (copy.direction == BulkCopy::kSharedToShared) {
    const std::uint32_t at = in_block(barrier, 0);
    watch.drains(static_cast<std::uint32_t>(from), bytes, &at);
  } else if (warp.clock && in_allocation(warp, from, bytes)) {
    race_global(watch.global(), from, bytes);
  }
  for (const std::uint32_t target : targets_of(warp, copy, lane)) {
    const std::uint32_t address = in_block(to, target);
    watch.fills(address, in_block(barrier, target), bytes);
    combine(shared_bytes(warp, address, bytes, lane), data, bytes, copy.reduction, type);
    mbarrier_complete(warp, in_block(barrier, target), bytes, lane);
  }
}

}  // namespace

void copy_bulk(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::int32_t* args = warp.frame->function->args.data() + op.args;
  BulkCopy copy;
  std::memcpy(&copy, args, sizeof copy);
  const std::int32_t* coordinates = args + sizeof copy / sizeof(std::int32_t);
  for_lanes(mask, [&](unsigned lane) {
    if (copy.rank != 0)
      copy_tensor(op, copy, coordinates, warp, lane);
    else
      copy_plain(op, copy, warp, lane);
  });
}

}  // namespace gpk::sim
