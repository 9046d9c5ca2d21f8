#include "sim/constant_pool.h"

#include <algorithm>
#include <cstring>

#include "base/round_up.h"

namespace gpk::sim {

Cell ConstantPool::allocate(unsigned bytes, std::uint64_t bits) {
  size_ += round_up(std::size_t{bytes} * kLanes, 64);
  entries_.push_back({bits, bytes, size_});
  if (size_ > kMaxFrameBytes) throw PtxError(0, "too many constants");
  return -static_cast<Cell>(size_);
}

Cell ConstantPool::constant(std::uint64_t bits, unsigned bytes) {
  if (bytes < 8) bits &= (std::uint64_t{1} << (8 * bytes)) - 1;
  const auto [it, added] = known_.try_emplace({bits, bytes}, 0);
  if (added) it->second = allocate(bytes, bits);
  return it->second;
}

Cell ConstantPool::predicate(bool value) { return constant(value ? kFull : 0, 4); }

Cell ConstantPool::relocated(Relocation::Kind kind, std::uint32_t index, std::uint64_t offset,
                             unsigned bytes) {
  const auto [it, added] =
      relocated_.try_emplace({static_cast<int>(kind), index, offset, bytes}, 0);
  if (added) {
    it->second = allocate(bytes, 0);
    relocations_.push_back({size_, kind, index, offset, static_cast<std::uint8_t>(bytes)});
  }
  return it->second;
}

void ConstantPool::finish(Program& program) {
  program.constants.assign(size_, std::byte{0});
  for (const Entry& entry : entries_)
    for (unsigned lane = 0; lane < kLanes; ++lane)
      std::memcpy(program.constants.data() + (size_ - entry.end) + std::size_t{entry.bytes} * lane,
                  &entry.bits, std::min(entry.bytes, 8u));
  program.relocations = relocations_;
  for (Relocation& relocation : program.relocations) relocation.at = size_ - relocation.at;
}

}  // namespace gpk::sim
