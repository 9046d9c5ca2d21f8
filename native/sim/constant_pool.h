// Constants as cells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/program.h"

namespace gpk::sim {

// Of all the cells of a function, or of the constants of a program.
inline constexpr std::size_t kMaxFrameBytes = std::size_t{1} << 28;

// Constants of a program, shared by its functions.
class ConstantPool {
 public:
  Cell constant(std::uint64_t bits, unsigned bytes);
  Cell predicate(bool value);
  Cell relocated(Relocation::Kind kind, std::uint32_t index, std::uint64_t offset, unsigned bytes);
  void finish(Program& program);

 private:
  struct Entry {
    std::uint64_t bits;
    unsigned bytes;
    std::size_t end;
  };
  Cell allocate(unsigned bytes_per_lane, std::uint64_t bits);
  std::vector<Entry> entries_;
  std::vector<Relocation> relocations_;
  std::map<std::pair<std::uint64_t, unsigned>, Cell> known_;
  std::map<std::tuple<int, std::uint32_t, std::uint64_t, unsigned>, Cell> relocated_;
  std::size_t size_ = 0;
};

}  // namespace gpk::sim
