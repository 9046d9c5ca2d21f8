#include "sim/register_ops.h"

#include <bit>
#include <cmath>
#include <cstdlib>

#include "sim/alu.h"
#include "sim/machine.h"

namespace gpk::sim {

void predicate_logic(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::uint32_t a = warp.predicate(op.a) ^ ((op.flags & 1) != 0 ? kFull : 0);
  const std::uint32_t b = warp.predicate(op.b) ^ ((op.flags & 2) != 0 ? kFull : 0);
  std::uint32_t result = a;
  switch (static_cast<Alu>(op.mode)) {
    case Alu::kAnd: result = a & b; break;
    case Alu::kOr: result = a | b; break;
    case Alu::kXor: result = a ^ b; break;
    case Alu::kNot: result = ~a; break;
    default: break;
  }
  warp.set_predicate(op.dst, result, mask);
}

void pack_vector(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::int32_t* cells = warp.frame->function->args.data() + op.args;
  // The destination may be one of the sources.
  std::byte buffer[16 * kLanes];
  for (unsigned k = 0; k < op.count; ++k) {
    const std::byte* from = warp.source<std::byte>(cells[k]);
    for (unsigned lane = 0; lane < kLanes; ++lane)
      std::memcpy(buffer + std::size_t{op.cell_bytes} * lane + std::size_t{op.bytes} * k,
                  from + std::size_t{op.bytes} * lane, op.bytes);
  }
  for_lanes(mask, [&](unsigned lane) {
    std::memcpy(warp.regs + op.dst + std::size_t{op.cell_bytes} * lane,
                buffer + std::size_t{op.cell_bytes} * lane, op.cell_bytes);
  });
}

void unpack_vector(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::int32_t* cells = warp.frame->function->args.data() + op.args;
  std::byte buffer[16 * kLanes];
  std::memcpy(buffer, warp.source<std::byte>(op.a), std::size_t{op.cell_bytes} * kLanes);
  for (unsigned k = 0; k < op.count; ++k)
    for_lanes(mask, [&](unsigned lane) {
      std::memcpy(warp.regs + cells[k] + std::size_t{op.bytes} * lane,
                  buffer + std::size_t{op.cell_bytes} * lane + std::size_t{op.bytes} * k, op.bytes);
    });
}

void move_wide(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::byte* from = warp.source<std::byte>(op.a);
  for_lanes(mask, [&](unsigned lane) {
    std::memmove(warp.regs + op.dst + std::size_t{16} * lane, from + std::size_t{16} * lane, 16);
  });
}

void low_half(const Op& op, Warp& warp, std::uint32_t mask) {
  for_lanes(mask, [&](unsigned lane) {
    warp.cell<std::uint16_t>(op.dst)[lane] =
        static_cast<std::uint16_t>(warp.source<std::uint32_t>(op.a)[lane]);
  });
}

void high_half(const Op& op, Warp& warp, std::uint32_t mask) {
  for_lanes(mask, [&](unsigned lane) {
    warp.cell<std::uint16_t>(op.dst)[lane] =
        static_cast<std::uint16_t>(warp.source<std::uint32_t>(op.a)[lane] >> 16);
  });
}

// A double that is zero counts as normal, a float does not: so an H200 has it.
void test_float(const Op& op, Warp& warp, std::uint32_t mask) {
  std::uint32_t result = 0;
  for_lanes(mask, [&](unsigned lane) {
    int kind = 0;
    if (op.cell_bytes == 8)
      kind = std::fpclassify(warp.source<double>(op.a)[lane]);
    else
      kind = std::fpclassify(warp.source<float>(op.a)[lane]);
    const bool tests[] = {kind != FP_NAN && kind != FP_INFINITE,
                          kind == FP_INFINITE,
                          kind != FP_NAN,
                          kind == FP_NAN,
                          kind == FP_NORMAL || (op.cell_bytes == 8 && kind == FP_ZERO),
                          kind == FP_SUBNORMAL};
    if (tests[op.mode]) result |= 1u << lane;
  });
  warp.set_predicate(op.dst, result, mask);
}

void make_mask(const Op& op, Warp& warp, std::uint32_t mask) {
  for_lanes(mask, [&](unsigned lane) {
    std::uint32_t position = warp.source<std::uint32_t>(op.a)[lane];
    std::uint32_t width = warp.source<std::uint32_t>(op.b)[lane];
    position = op.mode != 0 ? std::min(position, 32u) : position & 31;
    width = op.mode != 0 ? std::min(width, 32u) : width & 31;
    const std::uint64_t bits = ((std::uint64_t{1} << width) - 1) << position;
    warp.cell<std::uint32_t>(op.dst)[lane] = static_cast<std::uint32_t>(bits);
  });
}

void extend_bits(const Op& op, Warp& warp, std::uint32_t mask) {
  for_lanes(mask, [&](unsigned lane) {
    const std::uint32_t value = warp.source<std::uint32_t>(op.a)[lane];
    std::uint32_t width = warp.source<std::uint32_t>(op.b)[lane];
    width = op.mode != 0 ? std::min(width, 32u) : width & 31;
    std::uint32_t result = 0;
    if (width == 32) {
      result = value;
    } else if (width != 0) {
      result = value & ((1u << width) - 1);
      if (op.mode2 != 0 && (value >> (width - 1) & 1) != 0) result |= ~0u << width;
    }
    warp.cell<std::uint32_t>(op.dst)[lane] = result;
  });
}

void find_nth_set(const Op& op, Warp& warp, std::uint32_t mask) {
  for_lanes(mask, [&](unsigned lane) {
    const std::uint32_t bits = warp.source<std::uint32_t>(op.a)[lane];
    const std::uint32_t base = warp.source<std::uint32_t>(op.b)[lane];
    const auto offset = static_cast<std::int32_t>(warp.source<std::uint32_t>(op.c)[lane]);
    std::uint32_t found = kFull;
    if (base < 32 && offset == 0) {
      if ((bits >> base & 1) != 0) found = base;
    } else if (base < 32) {
      const int step = offset > 0 ? 1 : -1;
      std::int64_t left = offset > 0 ? offset : -static_cast<std::int64_t>(offset);
      for (int at = static_cast<int>(base); at >= 0 && at < 32; at += step)
        if ((bits >> at & 1) != 0 && --left == 0) {
          found = static_cast<std::uint32_t>(at);
          break;
        }
    }
    warp.cell<std::uint32_t>(op.dst)[lane] = found;
  });
}

namespace {

std::int32_t part_of(std::uint32_t word, unsigned shift, unsigned bits, bool is_signed) {
  const std::uint32_t top = word >> shift << (32 - bits);
  return is_signed ? static_cast<std::int32_t>(top) >> (32 - bits)
                   : static_cast<std::int32_t>(top >> (32 - bits));
}

}  // namespace

void absolute_differences(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto* a = warp.source<std::uint32_t>(op.a);
  const auto* b = warp.source<std::uint32_t>(op.b);
  const auto* c = warp.source<std::uint32_t>(op.c);
  const unsigned bits = op.count;
  for_lanes(mask, [&](unsigned lane) {
    std::uint32_t packed = 0, sum = c[lane];
    for (unsigned shift = 0; shift < 32; shift += bits) {
      const auto difference =
          static_cast<std::uint32_t>(std::abs(part_of(a[lane], shift, bits, (op.mode & 1) != 0) -
                                              part_of(b[lane], shift, bits, (op.mode & 2) != 0)));
      packed |= (difference & ((1u << bits) - 1)) << shift;
      sum += difference;
    }
    warp.cell<std::uint32_t>(op.dst)[lane] = op.mode2 != 0 ? sum : packed;
  });
}

void half_words(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto* a = warp.source<std::uint32_t>(op.a);
  const auto* b = warp.source<std::uint32_t>(op.b);
  const bool is_signed = (op.flags & 1) != 0;
  const auto kind = static_cast<Alu>(op.mode);
  for_lanes(mask, [&](unsigned lane) {
    std::uint32_t packed = 0;
    for (unsigned shift = 0; shift < 32; shift += 16) {
      const std::int32_t x = part_of(a[lane], shift, 16, is_signed);
      const std::int32_t y = part_of(b[lane], shift, 16, is_signed);
      std::int32_t value = kind == Alu::kAdd ? x + y : (x < y) == (kind == Alu::kMin) ? x : y;
      if ((op.flags & 2) != 0 && value < 0) value = 0;
      packed |= (static_cast<std::uint32_t>(value) & 0xffff) << shift;
    }
    warp.cell<std::uint32_t>(op.dst)[lane] = packed;
  });
}

void pack_saturated(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto type = static_cast<Type>(op.mode);
  const unsigned bits = bytes_of(type) * 8;
  const std::int64_t low = is_signed(type) ? -(std::int64_t{1} << (bits - 1)) : 0;
  const std::int64_t high =
      is_signed(type) ? (std::int64_t{1} << (bits - 1)) - 1 : (std::int64_t{1} << bits) - 1;
  const auto clamp = [&](std::int32_t x) {
    const std::int64_t y = x < low ? low : x > high ? high : x;
    return static_cast<std::uint32_t>(y) &
           static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
  };
  for_lanes(mask, [&](unsigned lane) {
    const std::uint32_t a = clamp(warp.source<std::int32_t>(op.a)[lane]);
    const std::uint32_t b = clamp(warp.source<std::int32_t>(op.b)[lane]);
    const std::uint32_t c = warp.source<std::uint32_t>(op.c)[lane];
    const std::uint64_t kept = static_cast<std::uint64_t>(c) << (2 * bits);
    warp.cell<std::uint32_t>(op.dst)[lane] = static_cast<std::uint32_t>(kept) | a << bits | b;
  });
}

}  // namespace gpk::sim
