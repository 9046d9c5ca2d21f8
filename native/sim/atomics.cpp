#include "sim/atomics.h"

#include <bit>
#include <utility>

#include "sim/checks.h"
#include "sim/formats.h"
#include "sim/machine.h"
#include "sim/memory.h"

namespace gpk::sim {
namespace {

float as_float(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

std::uint16_t add_narrow(bool bf16, std::uint64_t a, std::uint64_t b) {
  const auto x = static_cast<std::uint16_t>(a), y = static_cast<std::uint16_t>(b);
  return bf16 ? bf16_of_float(float_of_bf16(x) + float_of_bf16(y))
              : half_of_float(float_of_half(x) + float_of_half(y));
}

std::uint16_t extreme_narrow(bool bf16, bool max, std::uint64_t a, std::uint64_t b) {
  const auto wide = [&](std::uint64_t x) {
    return bf16 ? float_of_bf16(static_cast<std::uint16_t>(x))
                : float_of_half(static_cast<std::uint16_t>(x));
  };
  const float x = wide(a), y = wide(b);
  const bool first = x != x ? false : y != y ? true : max ? x > y : x < y;
  return static_cast<std::uint16_t>(first ? a : b);
}

template <class T>
std::uint64_t arithmetic(Atomic op, std::uint64_t old, std::uint64_t b) {
  const auto x = static_cast<T>(old), y = static_cast<T>(b);
  switch (op) {
    case Atomic::kMin: return static_cast<std::uint64_t>(x < y ? x : y);
    case Atomic::kMax: return static_cast<std::uint64_t>(x > y ? x : y);
    case Atomic::kInc: return x >= y ? 0 : static_cast<std::uint64_t>(x + 1);
    case Atomic::kDec:
      return x == 0 || x > y ? static_cast<std::uint64_t>(y) : static_cast<std::uint64_t>(x - 1);
    default: return old + b;
  }
}

}  // namespace

std::optional<Atomic> atomic_named(std::string_view name) {
  static constexpr std::pair<std::string_view, Atomic> kNames[] = {
      {"add", Atomic::kAdd}, {"exch", Atomic::kExch}, {"cas", Atomic::kCas}, {"min", Atomic::kMin},
      {"max", Atomic::kMax}, {"and", Atomic::kAnd},   {"or", Atomic::kOr},   {"xor", Atomic::kXor},
      {"inc", Atomic::kInc}, {"dec", Atomic::kDec}};
  for (const auto& [text, op] : kNames)
    if (text == name) return op;
  return std::nullopt;
}

bool has_atomic(Atomic op, Type type) {
  const unsigned bytes = bytes_of(type);
  if (bytes != 2 && bytes != 4 && bytes != 8) return false;
  switch (op) {
    case Atomic::kExch:
    case Atomic::kCas: return !is_float(type);
    case Atomic::kAnd:
    case Atomic::kOr:
    case Atomic::kXor: return !is_float(type) && bytes >= 4;
    case Atomic::kInc:
    case Atomic::kDec: return type == Type::kU32;
    case Atomic::kMin:
    case Atomic::kMax:
      return type != Type::kF32 && type != Type::kF64 && type != Type::kTf32 &&
             (is_float(type) || bytes >= 4);
    case Atomic::kAdd: return type != Type::kTf32 && (is_float(type) || bytes >= 4);
  }
  return false;
}

std::uint64_t atomic_result(Atomic op, Type type, std::uint64_t old, std::uint64_t b,
                            std::uint64_t c) {
  switch (op) {
    case Atomic::kExch: return b;
    case Atomic::kCas: return old == b ? c : old;
    case Atomic::kAnd: return old & b;
    case Atomic::kOr: return old | b;
    case Atomic::kXor: return old ^ b;
    default: break;
  }
  const bool add = op == Atomic::kAdd;
  const bool max = op == Atomic::kMax;
  switch (type) {
    case Type::kF32: {
      float sum = as_float(old) + as_float(b);
      if (sum != sum) sum = std::bit_cast<float>(0x7fffffffu);
      return std::bit_cast<std::uint32_t>(sum);
    }
    case Type::kF64:
      return std::bit_cast<std::uint64_t>(std::bit_cast<double>(old) + std::bit_cast<double>(b));
    case Type::kF16:
    case Type::kBf16:
      return add ? add_narrow(type == Type::kBf16, old, b)
                 : extreme_narrow(type == Type::kBf16, max, old, b);
    case Type::kF16x2:
    case Type::kBf16x2: {
      const bool bf16 = type == Type::kBf16x2;
      const auto half = [&](std::uint64_t x, std::uint64_t y) -> std::uint64_t {
        return add ? add_narrow(bf16, x, y) : extreme_narrow(bf16, max, x & 0xffff, y & 0xffff);
      };
      return half(old >> 16, b >> 16) << 16 | half(old, b);
    }
    case Type::kS32: return static_cast<std::uint32_t>(arithmetic<std::int32_t>(op, old, b));
    case Type::kS64: return arithmetic<std::int64_t>(op, old, b);
    case Type::kU64:
    case Type::kB64: return arithmetic<std::uint64_t>(op, old, b);
    default: return static_cast<std::uint32_t>(arithmetic<std::uint32_t>(op, old, b));
  }
}

namespace {

template <class T>
T exchange(std::byte* at, bool shared_between_threads, Atomic op, Type type, std::uint64_t b,
           std::uint64_t c) {
  T* word = reinterpret_cast<T*>(at);
  if (!shared_between_threads) {
    T old;
    std::memcpy(&old, at, sizeof old);
    const T next = static_cast<T>(atomic_result(op, type, old, b, c));
    std::memcpy(at, &next, sizeof next);
    return old;
  }
  T old = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    const T next = static_cast<T>(atomic_result(op, type, old, b, c));
    if (__atomic_compare_exchange_n(word, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
      return old;
  }
}

}  // namespace

void atomic(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto type = static_cast<Type>(op.bytes);
  const auto kind = static_cast<Atomic>(op.mode);
  const auto space = static_cast<Space>(op.mode2);
  const unsigned bytes = bytes_of(type);
  bool unchanged = true;
  std::uint64_t addresses[kLanes] = {};
  for_lanes(mask, [&](unsigned lane) {
    addresses[lane] = lane_address(op, warp, op.a, lane) + op.imm;
    if ((op.flags & kAddress64) == 0) addresses[lane] &= 0xffffffff;
  });
  if (warp.grid->options->counts) [[unlikely]]
    count_access(space, op, warp, mask, addresses, bytes);
  for_lanes(mask, [&](unsigned lane) {
    const std::uint64_t address = addresses[lane];
    if (address % bytes != 0)
      throw Fault{"misaligned", lane,
                  "atomic of " + std::to_string(bytes) + " bytes at " + hex(address)};
    std::byte* at = bytes_at(space, warp, address, bytes, lane);
    const bool global =
        space == Space::kGlobal || (space == Space::kGeneric && (address & kWindowMask) == 0);
    if (warp.block->shadow) [[unlikely]]
      check_atomic(space, op, warp, lane, address, bytes);
    std::uint64_t b = 0, c = 0;
    std::memcpy(&b, warp.source<std::byte>(op.b) + std::size_t{bytes} * lane, bytes);
    if (kind == Atomic::kCas)
      std::memcpy(&c, warp.source<std::byte>(op.c) + std::size_t{bytes} * lane, bytes);
    std::uint64_t old = 0;
    if (bytes == 4)
      old = exchange<std::uint32_t>(at, global, kind, type, b, c);
    else if (bytes == 8)
      old = exchange<std::uint64_t>(at, global, kind, type, b, c);
    else
      old = exchange<std::uint16_t>(at, global, kind, type, b, c);
    if (kind == Atomic::kExch
            ? old != b
            : (bytes < 8 || kind != Atomic::kCas) && atomic_result(kind, type, old, b, c) != old)
      unchanged = false;
    if (kind == Atomic::kCas && old == b) unchanged = false;
    if (op.dst != kNoCell) std::memcpy(warp.regs + op.dst + std::size_t{bytes} * lane, &old, bytes);
  });
  if (unchanged && op.dst != kNoCell && ++warp.polls >= 32) warp.spin = kSpinMemory;
}

}  // namespace gpk::sim
