#include "sim/memory.h"

#include <chrono>
#include <cstdio>
#include <type_traits>

#include "sim/checks.h"
#include "sim/heap.h"
#include "sim/machine.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-strict-aliasing")
#endif

namespace gpk::sim {

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

namespace {

constexpr std::size_t kVectorBytes = 16;

[[noreturn]] void outside_global(Warp& warp, std::uint64_t address, std::size_t bytes,
                                 unsigned lane) {
  std::string text = std::to_string(bytes) + " bytes at " + hex(address);
  auto near = warp.grid->memory->nearest(address);
  if (const auto on_heap = device_heap().find(address)) near = on_heap->allocation;
  if (near) {
    const std::uint64_t end = near->base + near->bytes;
    text += address < near->base ? ": " + std::to_string(near->base - address) + " bytes before "
            : address >= end     ? ": " + std::to_string(address - end) + " bytes after the end of "
                                 : ": runs past the end of ";
    text += (near->name.empty() ? "an allocation" : near->name) + " (" +
            std::to_string(near->bytes) + " bytes at " + hex(near->base) + ")";
  }
  throw Fault{"out of bounds", lane, text};
}

[[noreturn]] void misaligned(std::uint64_t address, std::size_t bytes, unsigned lane) {
  throw Fault{"misaligned", lane,
              "access of " + std::to_string(bytes) + " bytes at " + hex(address)};
}

// Not remembered by the warp: another one may free it.
[[gnu::noinline]] bool on_heap(std::uint64_t address, std::size_t bytes) {
  const auto found = device_heap().find(address);
  return found && !found->freed &&
         address - found->allocation.base + bytes <= found->allocation.bytes;
}

bool find_allocation(Warp& warp, std::uint64_t address, std::size_t bytes) {
  const auto params = reinterpret_cast<std::uint64_t>(warp.grid->params.data);
  if (address - params < warp.grid->params.size &&
      address - params + bytes <= warp.grid->params.size)
    return true;
  const auto found = warp.grid->memory->find(address);
  if (!found) [[unlikely]]
    return on_heap(address, bytes);
  const std::uint64_t end = address - found->base + bytes;
  if (end > found->bytes)
    return bytes == kVectorBytes && address % bytes == 0 && end <= found->bytes + found->padding;
  warp.allocation = found->base;
  warp.allocation_bytes = found->bytes;
  return true;
}

}  // namespace

std::byte* global_bytes(Warp& warp, std::uint64_t address, std::size_t bytes, unsigned lane) {
  const std::uint64_t at = address - warp.allocation;
  if (!(at < warp.allocation_bytes && at + bytes <= warp.allocation_bytes) &&
      !find_allocation(warp, address, bytes))
    outside_global(warp, address, bytes, lane);
  return reinterpret_cast<std::byte*>(address);
}

bool in_allocation(Warp& warp, std::uint64_t address, std::size_t bytes) {
  const std::uint64_t at = address - warp.allocation;
  return (at < warp.allocation_bytes && at + bytes <= warp.allocation_bytes) ||
         find_allocation(warp, address, bytes);
}

Block& shared_owner(Warp& warp, std::uint32_t address, unsigned lane) {
  const std::uint32_t rank = address >> kSharedOffsetBits;
  if (rank == 0) return *warp.block;
  auto& blocks = warp.block->cluster->blocks;
  if (rank - 1 >= blocks.size())
    throw Fault{"out of bounds", lane, "shared address " + hex(address) + " of no block"};
  return *blocks[rank - 1];
}

std::byte* shared_bytes(Warp& warp, std::uint32_t address, std::size_t bytes, unsigned lane) {
  Block& block = shared_owner(warp, address, lane);
  const std::uint32_t offset = address & ((1u << kSharedOffsetBits) - 1);
  if (offset < kSharedReserved || offset + bytes > block.shared.size)
    throw Fault{"out of bounds", lane,
                std::to_string(bytes) + " bytes at byte " +
                    std::to_string(static_cast<std::int64_t>(offset) - kSharedReserved) +
                    " of shared memory, which has " +
                    std::to_string(block.shared.size - kSharedReserved)};
  return block.shared.data + offset;
}

std::byte* local_bytes(Warp& warp, std::uint32_t address, std::size_t bytes, unsigned lane) {
  if (address > warp.local_bytes || bytes > warp.local_bytes - address)
    throw Fault{"out of bounds", lane,
                std::to_string(bytes) + " bytes at byte " + std::to_string(address) +
                    " of local memory, which has " + std::to_string(warp.local_bytes)};
  return warp.locals.data() + warp.local_bytes * lane + address;
}

std::byte* generic_bytes(Warp& warp, std::uint64_t address, std::size_t bytes, unsigned lane) {
  const std::uint64_t window = address & kWindowMask;
  if (window == 0) return global_bytes(warp, address, bytes, lane);
  const auto low = static_cast<std::uint32_t>(address);
  const bool in_window = (address & ~kWindowMask) >> 32 == 0;
  if (window == kSharedWindow && in_window) return shared_bytes(warp, low, bytes, lane);
  if (window == kLocalWindow && in_window) return local_bytes(warp, low, bytes, lane);
  outside_global(warp, address, bytes, lane);
}

std::byte* bytes_at(Space space, Warp& warp, std::uint64_t address, std::size_t bytes,
                    unsigned lane) {
  switch (space) {
    case Space::kGeneric: return generic_bytes(warp, address, bytes, lane);
    case Space::kGlobal: return global_bytes(warp, address, bytes, lane);
    case Space::kShared:
      if ((address >> kSharedOffsetBits & 0xff) != 0 && warp.block->cluster->blocks.size() == 1)
        throw Fault{"out of bounds", lane, "shared address " + hex(address)};
      [[fallthrough]];
    case Space::kSharedCluster:
      return shared_bytes(warp, static_cast<std::uint32_t>(address), bytes, lane);
    case Space::kLocal: return local_bytes(warp, static_cast<std::uint32_t>(address), bytes, lane);
    case Space::kKernelParam: break;
  }
  throw Fault{"invalid", lane, "access of parameters"};
}

std::uint64_t lane_address(const Op& op, const Warp& warp, Cell cell, unsigned lane) {
  return (op.flags & kAddress64) != 0 ? warp.source<std::uint64_t>(cell)[lane]
                                      : warp.source<std::uint32_t>(cell)[lane];
}

namespace {

using Addresses = std::uint64_t[kLanes];

void addresses_of(const Op& op, Warp& warp, Addresses& out) {
  if ((op.flags & kAddress64) != 0) {
    const auto* base = warp.source<std::uint64_t>(op.a);
    for (unsigned i = 0; i < kLanes; ++i) out[i] = base[i] + op.imm;
  } else {
    const auto* base = warp.source<std::uint32_t>(op.a);
    const auto offset = static_cast<std::uint32_t>(op.imm);
    for (unsigned i = 0; i < kLanes; ++i) out[i] = base[i] + offset;
  }
}

// A warp that reads or writes consecutive elements.
bool is_contiguous(const Addresses& addresses, unsigned bytes) {
  std::uint64_t off = 0;
  for (unsigned i = 0; i < kLanes; ++i)
    off |= addresses[i] ^ (addresses[0] + std::uint64_t{i} * bytes);
  return off == 0;
}

// Elements of one lane between memory and register cells. A cell is at least as wide.
template <unsigned kBytes>
void load_elements(const Op& op, Warp& warp, const std::int32_t* cells, const std::byte* from,
                   unsigned lane) {
  for (unsigned k = 0; k < op.count; ++k, from += kBytes) {
    if (cells[k] == kNoCell) continue;
    std::byte* to = warp.regs + cells[k] + std::size_t{lane} * op.cell_bytes;
    if (op.cell_bytes != kBytes) std::memset(to, 0, op.cell_bytes);
    if ((op.flags & kVolatile) != 0 && kBytes <= 8) {
      if constexpr (kBytes == 4) {
        const auto value =
            __atomic_load_n(reinterpret_cast<const std::uint32_t*>(from), __ATOMIC_ACQUIRE);
        std::memcpy(to, &value, kBytes);
        continue;
      } else if constexpr (kBytes == 8) {
        const auto value =
            __atomic_load_n(reinterpret_cast<const std::uint64_t*>(from), __ATOMIC_ACQUIRE);
        std::memcpy(to, &value, kBytes);
        continue;
      }
    }
    std::memcpy(to, from, kBytes);
  }
}

template <unsigned kBytes>
void store_elements(const Op& op, Warp& warp, const std::int32_t* cells, std::byte* to,
                    unsigned lane) {
  for (unsigned k = 0; k < op.count; ++k, to += kBytes) {
    const std::byte* from = warp.source<std::byte>(cells[k]) + std::size_t{lane} * op.cell_bytes;
    if ((op.flags & kVolatile) != 0) {
      if constexpr (kBytes == 4) {
        std::uint32_t value;
        std::memcpy(&value, from, kBytes);
        __atomic_store_n(reinterpret_cast<std::uint32_t*>(to), value, __ATOMIC_RELEASE);
        continue;
      } else if constexpr (kBytes == 8) {
        std::uint64_t value;
        std::memcpy(&value, from, kBytes);
        __atomic_store_n(reinterpret_cast<std::uint64_t*>(to), value, __ATOMIC_RELEASE);
        continue;
      }
    }
    std::memcpy(to, from, kBytes);
  }
}

template <class F>
void with_bytes(unsigned bytes, F&& body) {
  switch (bytes) {
    case 1: return body(std::integral_constant<unsigned, 1>());
    case 2: return body(std::integral_constant<unsigned, 2>());
    case 4: return body(std::integral_constant<unsigned, 4>());
    case 8: return body(std::integral_constant<unsigned, 8>());
    default: return body(std::integral_constant<unsigned, 16>());
  }
}

// All lanes inside one allocation, or the block's own shared memory, and aligned: no checks by
// lane.
template <Space kSpace, bool kLoad>
bool access_at_once(const Op& op, Warp& warp, std::uint32_t mask, const Addresses& addresses,
                    const std::int32_t* cells, unsigned total) {
  std::uint64_t base = kSharedReserved;
  std::uint64_t size = warp.block->shared.size - kSharedReserved;
  std::byte* host = warp.block->shared.data;
  const unsigned lead = static_cast<unsigned>(__builtin_ctz(mask));
  if (kSpace == Space::kGlobal) {
    if (addresses[lead] - warp.allocation >= warp.allocation_bytes &&
        !find_allocation(warp, addresses[lead], total))
      return false;
    base = warp.allocation;
    size = warp.allocation_bytes;
    host = nullptr;
  }
  if (size < total) return false;
  const std::uint64_t last = size - total;
  std::uint64_t bits = 0;
  bool outside = false;
  if (mask == kFull) {
    for (unsigned i = 0; i < kLanes; ++i) {
      bits |= addresses[i];
      outside |= addresses[i] - base > last;
    }
  } else {
    for_lanes(mask, [&](unsigned i) {
      bits |= addresses[i];
      outside |= addresses[i] - base > last;
    });
  }
  if (outside || (bits & (total - 1)) != 0) return false;
  with_bytes(op.bytes, [&](auto element) {
    constexpr unsigned kBytes = decltype(element)::value;
    for (unsigned k = 0; k < op.count; ++k) {
      if (cells[k] == kNoCell) continue;
      std::byte* cell =
          kLoad ? warp.regs + cells[k] : const_cast<std::byte*>(warp.source<std::byte>(cells[k]));
      const auto one = [&](unsigned i) {
        std::byte* at = host == nullptr ? reinterpret_cast<std::byte*>(addresses[i]) + k * kBytes
                                        : host + addresses[i] + k * kBytes;
        if (kLoad)
          std::memcpy(cell + std::size_t{kBytes} * i, at, kBytes);
        else
          std::memcpy(at, cell + std::size_t{kBytes} * i, kBytes);
      };
      if (mask == kFull)
        for (unsigned i = 0; i < kLanes; ++i) one(i);
      else
        for_lanes(mask, one);
    }
  });
  return true;
}

template <Space kSpace, bool kLoad>
void access(const Op& op, Warp& warp, std::uint32_t mask) {
  Addresses addresses;
  addresses_of(op, warp, addresses);
  const std::int32_t* cells = warp.frame->function->args.data() + op.args;
  const unsigned total = op.bytes * op.count;
  if (warp.watch) [[unlikely]] {
    if (warp.grid->options->counts) count_access(kSpace, op, warp, mask, addresses, total);
    if (warp.block->shadow) check_access(kSpace, kLoad, op, warp, mask, addresses, total);
  }
  if (kSpace == Space::kGlobal && mask == kFull && op.count == 1 && op.cell_bytes == op.bytes &&
      (op.flags & kVolatile) == 0 && is_contiguous(addresses, op.bytes) &&
      addresses[0] % op.bytes == 0) {
    const std::size_t bytes = std::size_t{op.bytes} * kLanes;
    const std::uint64_t at = addresses[0] - warp.allocation;
    // Else lane by lane, so that a fault names its lane.
    if ((at < warp.allocation_bytes && at + bytes <= warp.allocation_bytes) ||
        find_allocation(warp, addresses[0], bytes)) {
      if (kLoad)
        std::memcpy(warp.regs + cells[0], reinterpret_cast<const void*>(addresses[0]), bytes);
      else
        std::memcpy(reinterpret_cast<void*>(addresses[0]), warp.source<std::byte>(cells[0]), bytes);
      return;
    }
  }
  if ((kSpace == Space::kGlobal || kSpace == Space::kShared || kSpace == Space::kSharedCluster) &&
      op.cell_bytes == op.bytes && (op.flags & kVolatile) == 0 &&
      access_at_once<kSpace, kLoad>(op, warp, mask, addresses, cells, total))
    return;
  with_bytes(op.bytes, [&](auto element) {
    constexpr unsigned kBytes = decltype(element)::value;
    for_lanes(mask, [&](unsigned lane) {
      const std::uint64_t address = addresses[lane];
      if ((address & (total - 1)) != 0) misaligned(address, total, lane);
      std::byte* bytes = bytes_at(kSpace, warp, address, total, lane);
      if (kLoad)
        load_elements<kBytes>(op, warp, cells, bytes, lane);
      else
        store_elements<kBytes>(op, warp, cells, bytes, lane);
    });
  });
  // A warp that reads one flag over and over waits for somebody else.
  if ((op.flags & kVolatile) != 0 && kLoad && ++warp.polls >= 32) warp.spin = kSpinMemory;
}

void load_kernel_param(const Op& op, Warp& warp, std::uint32_t mask) {
  if (mask == kFull && op.count == 1 && op.cell_bytes == op.bytes && op.bytes >= 4) {
    const std::int32_t cell = warp.frame->function->args[op.args];
    if (cell == kNoCell) return;
    if (op.bytes == 8) {
      std::uint64_t value;
      std::memcpy(&value, warp.grid->params.data + op.imm, 8);
      for (unsigned i = 0; i < kLanes; ++i) warp.cell<std::uint64_t>(cell)[i] = value;
      return;
    }
    if (op.bytes == 4) {
      std::uint32_t value;
      std::memcpy(&value, warp.grid->params.data + op.imm, 4);
      for (unsigned i = 0; i < kLanes; ++i) warp.cell<std::uint32_t>(cell)[i] = value;
      return;
    }
  }
  const std::int32_t* cells = warp.frame->function->args.data() + op.args;
  const std::byte* from = warp.grid->params.data + op.imm;
  with_bytes(op.bytes, [&](auto element) {
    constexpr unsigned kBytes = decltype(element)::value;
    for_lanes(mask, [&](unsigned lane) { load_elements<kBytes>(op, warp, cells, from, lane); });
  });
}

template <bool kLoad>
Handler access_handler(Space space) {
  switch (space) {
    case Space::kGeneric: return access<Space::kGeneric, kLoad>;
    case Space::kGlobal: return access<Space::kGlobal, kLoad>;
    case Space::kShared: return access<Space::kShared, kLoad>;
    case Space::kSharedCluster: return access<Space::kSharedCluster, kLoad>;
    case Space::kLocal: return access<Space::kLocal, kLoad>;
    case Space::kKernelParam: return kLoad ? load_kernel_param : nullptr;
  }
  return nullptr;
}

}  // namespace

Handler load_handler(Space space) { return access_handler<true>(space); }
Handler store_handler(Space space) { return access_handler<false>(space); }

void load_blob(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::int32_t* cells = warp.frame->function->args.data() + op.args;
  with_bytes(op.bytes, [&](auto element) {
    constexpr unsigned kBytes = decltype(element)::value;
    for_lanes(mask, [&](unsigned lane) {
      const std::byte* from = warp.regs + op.a + static_cast<std::size_t>(op.c) * lane + op.imm;
      load_elements<kBytes>(op, warp, cells, from, lane);
    });
  });
}

void store_blob(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::int32_t* cells = warp.frame->function->args.data() + op.args;
  with_bytes(op.bytes, [&](auto element) {
    constexpr unsigned kBytes = decltype(element)::value;
    for_lanes(mask, [&](unsigned lane) {
      std::byte* to = warp.regs + op.a + static_cast<std::size_t>(op.c) * lane + op.imm;
      store_elements<kBytes>(op, warp, cells, to, lane);
    });
  });
}

void local_address(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::uint64_t value = warp.frame->local_base + op.imm;
  for_lanes(mask, [&](unsigned lane) {
    if (op.cell_bytes == 8)
      warp.cell<std::uint64_t>(op.dst)[lane] = value;
    else
      warp.cell<std::uint32_t>(op.dst)[lane] = static_cast<std::uint32_t>(value);
  });
}

void read_clock(const Op& op, Warp& warp, std::uint32_t mask) {
  std::uint64_t value = 0;
  if (op.mode >= kGlobaltimer) {
    value = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                           std::chrono::system_clock::now().time_since_epoch())
                                           .count());
    // Who looks at the time may be waiting for it to pass.
    if (++warp.polls >= 32) warp.spin = kSpinMemory;
  } else {
    value = warp.warp_ops * 4;
  }
  if (op.mode == kClockHi || op.mode == kGlobaltimerHi) value >>= 32;
  for_lanes(mask, [&](unsigned lane) {
    if (op.cell_bytes == 8)
      warp.cell<std::uint64_t>(op.dst)[lane] = value;
    else
      warp.cell<std::uint32_t>(op.dst)[lane] = static_cast<std::uint32_t>(value);
  });
}

void is_space(const Op& op, Warp& warp, std::uint32_t mask) {
  std::uint32_t result = 0;
  for_lanes(mask, [&](unsigned lane) {
    const std::uint64_t address = lane_address(op, warp, op.a, lane);
    const std::uint64_t window = address & kWindowMask;
    const auto params = reinterpret_cast<std::uint64_t>(warp.grid->params.data);
    bool is = false;
    switch (static_cast<Space>(op.mode)) {
      case Space::kSharedCluster: is = window == kSharedWindow; break;
      case Space::kShared: {
        const std::uint64_t rank = (address & 0xffffffff) >> kSharedOffsetBits;
        is = window == kSharedWindow && (rank == 0 || rank == warp.block->rank + 1);
        break;
      }
      case Space::kLocal: is = window == kLocalWindow; break;
      case Space::kKernelParam: is = address - params < warp.grid->params.size; break;
      default: is = window == 0; break;
    }
    if (is) result |= 1u << lane;
  });
  warp.set_predicate(op.dst, result, mask);
}

void map_shared(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto* ranks = warp.source<std::uint32_t>(op.b);
  for_lanes(mask, [&](unsigned lane) {
    const std::uint64_t address = lane_address(op, warp, op.a, lane);
    if (ranks[lane] >= warp.block->cluster->blocks.size())
      throw Fault{"invalid", lane,
                  "mapa to rank " + std::to_string(ranks[lane]) + " of a cluster of " +
                      std::to_string(warp.block->cluster->blocks.size())};
    constexpr std::uint64_t kOffset = (1u << kSharedOffsetBits) - 1;
    const std::uint64_t low = (address & kOffset) | std::uint64_t{ranks[lane] + 1}
                                                        << kSharedOffsetBits;
    if (op.cell_bytes == 8)
      warp.cell<std::uint64_t>(op.dst)[lane] = (address & ~std::uint64_t{0xffffffff}) | low;
    else
      warp.cell<std::uint32_t>(op.dst)[lane] = static_cast<std::uint32_t>(low);
  });
}

void shared_rank(const Op& op, Warp& warp, std::uint32_t mask) {
  for_lanes(mask, [&](unsigned lane) {
    const auto address = static_cast<std::uint32_t>(lane_address(op, warp, op.a, lane));
    const std::uint32_t rank = address >> kSharedOffsetBits;
    warp.cell<std::uint32_t>(op.dst)[lane] = rank == 0 ? warp.block->rank : rank - 1;
  });
}

}  // namespace gpk::sim
