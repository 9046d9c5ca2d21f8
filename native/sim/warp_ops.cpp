#include "sim/warp_ops.h"

#include <bit>

#include "sim/atomics.h"
#include "sim/machine.h"
#include "sim/types.h"

namespace gpk::sim {
namespace {

Cell more(const Op& op, const Warp& warp, unsigned index) {
  return warp.frame->function->args[op.args + index];
}

}  // namespace

void shuffle(const Op& op, Warp& warp, std::uint32_t mask) {
  std::uint32_t values[kLanes];
  std::memcpy(values, warp.source<std::uint32_t>(op.a), sizeof values);
  std::uint32_t picked[kLanes];
  std::uint32_t valid = 0;
  const auto* b = warp.source<std::uint32_t>(op.b);
  const auto* c = warp.source<std::uint32_t>(op.c);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const auto value = static_cast<int>(b[lane] & 31);
    const auto clamp = static_cast<int>(c[lane] & 31);
    const auto segment = static_cast<int>(c[lane] >> 8 & 31);
    const int self = static_cast<int>(lane);
    const int low = self & segment;
    const int high = low | (clamp & ~segment);
    int from = 0;
    bool in = false;
    switch (static_cast<Shuffle>(op.mode)) {
      case Shuffle::kUp:
        from = self - value;
        in = from >= high;
        break;
      case Shuffle::kDown:
        from = self + value;
        in = from <= high;
        break;
      case Shuffle::kBfly:
        from = self ^ value;
        in = from <= high;
        break;
      case Shuffle::kIdx:
        from = low | (value & ~segment);
        in = from <= high;
        break;
    }
    if (!in) from = self;
    if (in) valid |= 1u << lane;
    picked[lane] = values[from & 31];
  }
  std::uint32_t* dst = warp.cell<std::uint32_t>(op.dst);
  if (mask == kFull)
    std::memcpy(dst, picked, sizeof picked);
  else
    for_lanes(mask, [&](unsigned lane) { dst[lane] = picked[lane]; });
  if (const Cell predicate = more(op, warp, 1); predicate != kNoCell)
    warp.set_predicate(predicate, valid, mask);
}

void vote(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::uint32_t value = (warp.predicate(op.a) ^ (op.flags != 0 ? kFull : 0)) & mask;
  switch (static_cast<Vote>(op.mode)) {
    case Vote::kAll: return warp.set_predicate(op.dst, value == mask ? kFull : 0, mask);
    case Vote::kAny: return warp.set_predicate(op.dst, value != 0 ? kFull : 0, mask);
    case Vote::kUni:
      return warp.set_predicate(op.dst, value == mask || value == 0 ? kFull : 0, mask);
    case Vote::kBallot:
      for_lanes(mask, [&](unsigned lane) { warp.cell<std::uint32_t>(op.dst)[lane] = value; });
  }
}

namespace {

std::uint64_t value_at(const Op& op, const Warp& warp, unsigned lane) {
  return op.cell_bytes == 8 ? warp.source<std::uint64_t>(op.a)[lane]
                            : warp.source<std::uint32_t>(op.a)[lane];
}

}  // namespace

void match_any(const Op& op, Warp& warp, std::uint32_t mask) {
  std::uint32_t result[kLanes] = {};
  for_lanes(mask, [&](unsigned lane) {
    for_lanes(mask, [&](unsigned other) {
      if (value_at(op, warp, lane) == value_at(op, warp, other)) result[lane] |= 1u << other;
    });
  });
  for_lanes(mask, [&](unsigned lane) { warp.cell<std::uint32_t>(op.dst)[lane] = result[lane]; });
}

void match_all(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::uint64_t first = value_at(op, warp, static_cast<unsigned>(std::countr_zero(mask)));
  bool all = true;
  for_lanes(mask, [&](unsigned lane) { all = all && value_at(op, warp, lane) == first; });
  for_lanes(mask, [&](unsigned lane) { warp.cell<std::uint32_t>(op.dst)[lane] = all ? mask : 0; });
  if (const Cell predicate = more(op, warp, 1); predicate != kNoCell)
    warp.set_predicate(predicate, all ? kFull : 0, mask);
}

void reduce_warp(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto kind = static_cast<Atomic>(op.mode);
  const auto type = static_cast<Type>(op.bytes);
  bool first = true;
  std::uint64_t result = 0;
  for_lanes(mask, [&](unsigned lane) {
    const std::uint64_t value = warp.source<std::uint32_t>(op.a)[lane];
    result = first ? value : atomic_result(kind, type, result, value, 0);
    first = false;
  });
  for_lanes(mask, [&](unsigned lane) {
    warp.cell<std::uint32_t>(op.dst)[lane] = static_cast<std::uint32_t>(result);
  });
}

void elect(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto lead = static_cast<std::uint32_t>(std::countr_zero(mask));
  if (op.dst != kNoCell)
    for_lanes(mask, [&](unsigned lane) { warp.cell<std::uint32_t>(op.dst)[lane] = lead; });
  if (const Cell predicate = more(op, warp, 1); predicate != kNoCell)
    warp.set_predicate(predicate, 1u << lead, mask);
}

void active_mask(const Op& op, Warp& warp, std::uint32_t mask) {
  for_lanes(mask, [&](unsigned lane) { warp.cell<std::uint32_t>(op.dst)[lane] = mask; });
}

}  // namespace gpk::sim
