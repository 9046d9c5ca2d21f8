#include "sim/mbarrier.h"

#include <bit>

#include "sim/checks.h"
#include "sim/machine.h"
#include "sim/memory.h"
#include "sim/races.h"
#include "sim/specials.h"

namespace gpk::sim {
namespace {

constexpr std::uint32_t kCountMask = (1u << 20) - 1;
constexpr std::int64_t kBias = 1 << 21;

struct State {
  std::uint32_t pending, expected;
  std::int64_t bytes;
  bool phase;
};

State unpack(std::uint64_t word) {
  return {static_cast<std::uint32_t>(word) & kCountMask,
          static_cast<std::uint32_t>(word >> 20) & kCountMask,
          static_cast<std::int64_t>(word >> 40 & 0x3fffff) - kBias, word >> 63 != 0};
}

std::uint64_t pack(const State& state) {
  return state.pending | static_cast<std::uint64_t>(state.expected) << 20 |
         static_cast<std::uint64_t>((state.bytes + kBias) & 0x3fffff) << 40 |
         static_cast<std::uint64_t>(state.phase) << 63;
}

class Object {
 public:
  Object(Warp& warp, std::uint32_t address, unsigned lane)
      : warp_(warp), address_(address), lane_(lane) {
    if (address % 8 != 0) throw Fault{"misaligned", lane, "mbarrier at " + hex(address)};
    at_ = shared_bytes(warp, address, 8, lane);
    std::memcpy(&word_, at_, 8);
  }
  std::uint64_t word() const { return word_; }
  const std::byte* at() const { return at_; }
  Warp& warp() const { return warp_; }
  // The object itself: initialised by one thread, then used by others.
  void check(const Op& op, bool plain) const {
    if (!warp_.clock) return;
    Block& owner = shared_owner(warp_, address_, lane_);
    race_shared({warp_, op, lane_, plain, !plain}, owner,
                static_cast<std::size_t>(at_ - owner.shared.data), 8);
  }
  State state() const {
    const State state = unpack(word_);
    if (state.expected == 0)
      throw Fault{"invalid", lane_,
                  "mbarrier at " + hex(address_) + " of shared memory is not initialised"};
    return state;
  }
  void write(std::uint64_t word) {
    std::memcpy(at_, &word, 8);
    ++warp_.block->cluster->events;
    Block& owner = shared_owner(warp_, address_, lane_);
    mark_written(owner, static_cast<std::size_t>(at_ - owner.shared.data), 8);
  }
  void update(State state) {
    if (state.pending == 0 && state.bytes == 0) {
      state.phase = !state.phase;
      state.pending = state.expected;
      if (warp_.clock) mbarrier_completed(warp_, at_);
    }
    write(pack(state));
  }

 private:
  Warp& warp_;
  std::uint32_t address_;
  unsigned lane_;
  std::byte* at_;
  std::uint64_t word_ = 0;
};

void arrive(Object& object, std::uint32_t count, std::int64_t bytes, bool drop,
            std::uint32_t address, unsigned lane) {
  State state = object.state();
  if (count > state.pending)
    throw Fault{"invalid", lane,
                "mbarrier at " + hex(address) + ": " + std::to_string(count) + " arrivals, " +
                    std::to_string(state.pending) + " of " + std::to_string(state.expected) +
                    " pending"};
  if (object.warp().clock) mbarrier_arrived(object.warp(), object.at());
  state.bytes += bytes;
  state.pending -= count;
  if (drop) state.expected -= count;
  object.update(state);
}

}  // namespace

void mbarrier_arrive(Warp& warp, std::uint32_t address, std::uint32_t count, unsigned lane) {
  Object object(warp, address, lane);
  arrive(object, count, 0, false, address, lane);
}

void mbarrier_complete(Warp& warp, std::uint32_t address, std::uint64_t bytes, unsigned lane) {
  Object object(warp, address, lane);
  State state = object.state();
  state.bytes -= static_cast<std::int64_t>(bytes);
  if (state.bytes < -kBias)
    throw Fault{"invalid", lane, "mbarrier at " + hex(address) + ": more bytes than expected"};
  object.update(state);
}

std::string mbarrier_waiting_text(Warp& warp) {
  const Block& owner = shared_owner(warp, warp.waits_for, 0);
  const std::size_t offset = warp.waits_for & ((1u << kSharedOffsetBits) - 1);
  std::uint64_t word = 0;
  std::memcpy(&word, owner.shared.data + offset, sizeof word);
  const State state = unpack(word);
  std::string text = "waits for parity " + std::to_string(warp.waits_phase) +
                     " of the mbarrier at byte " + std::to_string(offset - kSharedReserved) +
                     " of shared memory (" + std::to_string(state.pending) + " of " +
                     std::to_string(state.expected) + " arrivals missing";
  if (state.bytes > 0) text += ", " + std::to_string(state.bytes) + " bytes missing";
  if (state.bytes < 0) text += ", " + std::to_string(-state.bytes) + " bytes too many";
  text += ")";
  return text;
}

void mbarrier(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto kind = static_cast<MbarrierOp>(op.mode);
  std::uint32_t done = 0;
  for_lanes(mask, [&](unsigned lane) {
    if (kind == MbarrierOp::kPendingCount) {
      warp.cell<std::uint32_t>(op.dst)[lane] =
          unpack(warp.source<std::uint64_t>(op.a)[lane]).pending;
      return;
    }
    const auto address = static_cast<std::uint32_t>(lane_address(op, warp, op.a, lane) + op.imm);
    Object object(warp, address, lane);
    const std::uint32_t value =
        op.b == kNoCell || kind == MbarrierOp::kTest ? 1 : warp.source<std::uint32_t>(op.b)[lane];
    const bool plain = kind == MbarrierOp::kInit || kind == MbarrierOp::kInvalidate;
    object.check(op, plain);
    if (plain && warp.clock) mbarrier_initialised(warp, object.at());
    switch (kind) {
      case MbarrierOp::kInit: {
        if (value == 0 || value > kCountMask)
          throw Fault{"invalid", lane, "mbarrier.init with " + std::to_string(value)};
        object.write(pack({value, value, 0, false}));
        break;
      }
      case MbarrierOp::kInvalidate: object.write(0); break;
      case MbarrierOp::kArrive: arrive(object, value, 0, false, address, lane); break;
      case MbarrierOp::kArriveDrop: arrive(object, value, 0, true, address, lane); break;
      case MbarrierOp::kArriveExpect: arrive(object, 1, value, false, address, lane); break;
      case MbarrierOp::kExpect: {
        State state = object.state();
        state.bytes += value;
        object.update(state);
        break;
      }
      case MbarrierOp::kComplete: mbarrier_complete(warp, address, value, lane); break;
      case MbarrierOp::kTest:
        if (object.state().phase != unpack(warp.source<std::uint64_t>(op.b)[lane]).phase)
          done |= 1u << lane;
        break;
      case MbarrierOp::kTestParity:
        if (object.state().phase != ((value & 1) != 0)) done |= 1u << lane;
        break;
      case MbarrierOp::kPendingCount: break;
    }
    const bool arrives = kind == MbarrierOp::kArrive || kind == MbarrierOp::kArriveExpect ||
                         kind == MbarrierOp::kArriveDrop;
    if (arrives && op.dst != kNoCell) warp.cell<std::uint64_t>(op.dst)[lane] = object.word();
  });
  if (kind != MbarrierOp::kTest && kind != MbarrierOp::kTestParity) return;
  warp.set_predicate(op.dst, done, mask);
  if (warp.clock)
    for_lanes(done, [&](unsigned lane) {
      const auto address = static_cast<std::uint32_t>(lane_address(op, warp, op.a, lane) + op.imm);
      mbarrier_waited(warp, shared_bytes(warp, address, 8, lane));
    });
  if (done == mask) return;
  warp.spin = kSpinMbarrier;
  const auto lane = static_cast<unsigned>(std::countr_zero(mask & ~done));
  warp.waits_at = &op;
  warp.waits_for = static_cast<std::uint32_t>(lane_address(op, warp, op.a, lane) + op.imm);
  warp.waits_phase = kind == MbarrierOp::kTest
                         ? unpack(warp.source<std::uint64_t>(op.b)[lane]).phase ? 1 : 0
                         : warp.source<std::uint32_t>(op.b)[lane] & 1;
}

}  // namespace gpk::sim
