#include "sim/control.h"

#include <algorithm>
#include <bit>

#include "sim/barriers.h"
#include "sim/checks.h"
#include "sim/machine.h"
#include "sim/races.h"
#include "sim/specials.h"
#include "sim/trace.h"
#include "sim/undefined.h"

namespace gpk::sim {

void AlignedBytes::reset(std::size_t bytes, bool zero) {
  const bool fresh = bytes > capacity || !storage;
  if (fresh) {
    capacity = bytes;
    storage = std::make_unique_for_overwrite<std::byte[]>(bytes + 64);
    data = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(storage.get()) + 63) &
                                        ~std::uintptr_t{63});
  }
  size = bytes;
  if (zero || fresh) std::memset(data, 0, bytes);
}

Join* Warp::new_join() {
  if (!free_joins.empty()) {
    Join* join_now = free_joins.back();
    free_joins.pop_back();
    *join_now = Join{};
    return join_now;
  }
  joins.push_back(std::make_unique<Join>());
  return joins.back().get();
}

namespace {

constexpr std::size_t kMaxDepth = 4096;

Frame* new_frame(Warp& warp, const Function& function, Frame* caller, const Op* call_op) {
  std::unique_ptr<Frame> frame;
  if (!warp.free_frames.empty()) {
    frame = std::move(warp.free_frames.back());
    warp.free_frames.pop_back();
  } else {
    frame = std::make_unique<Frame>();
  }
  frame->function = &function;
  frame->caller = caller;
  frame->call = call_op;
  frame->local_base =
      caller == nullptr
          ? 0
          : caller->local_base + static_cast<std::uint32_t>(caller->function->local_bytes);
  frame->registers.reset(function.frame_bytes, false);
  fill_specials(warp, *frame);
  warp.frames.push_back(std::move(frame));
  return warp.frames.back().get();
}

void free_frame(Warp& warp, Frame* frame) {
  const auto it = std::find_if(warp.frames.rbegin(), warp.frames.rend(),
                               [&](const auto& one) { return one.get() == frame; });
  warp.free_frames.push_back(std::move(*it));
  warp.frames.erase(std::next(it).base());
}

void load(Warp& warp, const Split& split) {
  warp.frame = split.frame;
  warp.regs = split.frame->registers.data;
  warp.pc = split.pc;
  warp.mask = split.mask;
  warp.join = split.join;
}

Split current(const Warp& warp) {
  Split split;
  split.frame = warp.frame;
  split.join = warp.join;
  split.pc = warp.pc;
  split.mask = warp.mask;
  return split;
}

void drop_current(Warp& warp) {
  warp.mask = 0;
  warp.stop = true;
}

// Goes on after `join` with all its lanes; the running split is replaced.
void pass(Warp& warp, Join* join) {
  warp.frame = join->frame;
  warp.regs = join->frame->registers.data;
  warp.pc = join->pc;
  warp.mask = join->arrived;
  warp.join = join->parent;
  warp.free_join(join);
}

}  // namespace

Split& park(Warp& warp, Split::State state) {
  warp.splits.push_back(current(warp));
  warp.splits.back().state = state;
  drop_current(warp);
  return warp.splits.back();
}

void pick_split(Warp& warp) {
  for (std::size_t i = warp.splits.size(); i-- > 0;) {
    if (warp.splits[i].state != Split::State::kReady) continue;
    load(warp, warp.splits[i]);
    warp.splits.erase(warp.splits.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

bool finished(const Warp& warp) { return warp.live == 0; }

void start_warp(Warp& warp, Block& block, unsigned index) {
  for (auto& frame : warp.frames) warp.free_frames.push_back(std::move(frame));
  warp.frames.clear();
  warp.splits.clear();
  warp.free_joins.clear();
  for (const auto& join : warp.joins) warp.free_joins.push_back(join.get());
  warp.counts.clear();
  warp.undefined.reset();
  const TraceRequest& traced = block.grid->options->trace;
  warp.tracer = index == traced.warp && block.index == traced.block ? block.grid->tracer : nullptr;
  warp.allocation = warp.allocation_bytes = 0;
  warp.lane_ops = warp.warp_ops = 0;
  warp.cluster_phase = warp.cluster_arrived = 0;
  warp.running_now = false;
  warp.block = &block;
  warp.grid = block.grid;
  warp.index = index;
  warp.constants = block.grid->constants_end;
  const unsigned threads = block.grid->threads_per_block - index * kLanes;
  warp.live = threads >= kLanes ? kFull : (1u << threads) - 1;
  const Function& function = block.grid->kernel->function();
  warp.local_bytes = function.stack_bytes;
  warp.locals.assign(warp.local_bytes * kLanes, std::byte{0});
  const LaunchOptions& options = *block.grid->options;
  warp.watch = options.counts || options.check || options.check_races || warp.tracer != nullptr;
  warp.local_written.assign(options.check ? warp.locals.size() : 0, 0);
  warp.waits_at = nullptr;
  warp.frame = new_frame(warp, function, nullptr, nullptr);
  warp.regs = warp.frame->registers.data;
  warp.pc = 0;
  warp.mask = warp.live;
  warp.join = nullptr;
}

void run_warp(Warp& warp, std::uint64_t budget) {
  warp.spin = kNoSpin;
  if (warp.mask == 0) pick_split(warp);
  std::uint64_t ops = 0;
  std::uint64_t lane_ops = 0;
  const bool watch = warp.watch;
  while (warp.mask != 0) {
    warp.stop = false;
    const Op* code = warp.frame->function->code.data();
    std::uint32_t pc = warp.pc;
    std::uint32_t mask = warp.mask;
    for (;;) {
      const Op& op = code[pc];
      std::uint32_t active = mask;
      if (op.guard != kNoCell) {
        active &= warp.predicate(op.guard) ^ (op.guard_negated ? kFull : 0);
        if (active == 0) {
          ++pc;
          continue;
        }
      }
      ++ops;
      lane_ops += active == kFull ? kLanes : static_cast<unsigned>(std::popcount(active));
      if (watch) [[unlikely]]
        watch_op(warp, op, active);
      warp.pc = pc;
      if (!op.control) {
        op.run(op, warp, active);
        ++pc;
        if (warp.spin != kNoSpin) [[unlikely]] {
          warp.pc = pc;
          goto spun;
        }
        continue;
      }
      op.run(op, warp, active);
      if (warp.stop) break;
      if (warp.spin != kNoSpin || ops >= budget) goto spun;
      code = warp.frame->function->code.data();
      pc = warp.pc;
      mask = warp.mask;
    }
    if (warp.mask == 0) pick_split(warp);
    if (ops >= budget) break;
  }
  warp.warp_ops += ops;
  warp.lane_ops += lane_ops;
  return;
spun:
  warp.warp_ops += ops;
  warp.lane_ops += lane_ops;
  // Another part of the warp may be what this one waits for.
  if (!warp.splits.empty()) {
    warp.splits.insert(warp.splits.begin(), current(warp));
    warp.mask = 0;
    pick_split(warp);
  }
}

void nothing(const Op&, Warp&, std::uint32_t) {}

void yield_warp(const Op&, Warp& warp, std::uint32_t) { warp.spin = kSpinMemory; }

namespace {

// Some lanes go to `target`, the others to the next operation.
void diverge(Warp& warp, std::uint32_t taken, std::uint32_t target, Cell join_pc) {
  const std::uint32_t others = warp.mask & ~taken;
  const std::uint32_t next = warp.pc + 1;
  Join* join = warp.join;
  if (join_pc != kNoJoin) {
    const auto at = static_cast<std::uint32_t>(join_pc);
    if (join == nullptr || join->is_return || join->pc != at || join->frame != warp.frame) {
      join = warp.new_join();
      join->pc = at;
      join->frame = warp.frame;
      join->pending = warp.mask;
      join->parent = warp.join;
    }
    warp.join = join;
    if (target == at) {
      join->arrived |= taken;
      warp.mask = others;
      warp.pc = next;
      return;
    }
    if (next == at) {
      join->arrived |= others;
      warp.mask = taken;
      warp.pc = target;
      return;
    }
  }
  Split other = current(warp);
  other.mask = others;
  other.pc = next;
  warp.splits.push_back(other);
  warp.mask = taken;
  warp.pc = target;
}

}  // namespace

void branch(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto target = static_cast<std::uint32_t>(op.imm);
  if (mask == warp.mask) {
    warp.pc = target;
    return;
  }
  diverge(warp, mask, target, op.c);
}

void branch_table(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::int32_t* table = warp.frame->function->args.data() + op.args;
  const auto count = static_cast<std::uint32_t>(table[0]);
  const auto* index = warp.source<std::uint32_t>(op.a);
  const unsigned lead = static_cast<unsigned>(std::countr_zero(mask));
  if (index[lead] >= count)
    throw Fault{
        "invalid", lead,
        "branch table of " + std::to_string(count) + ", index " + std::to_string(index[lead])};
  std::uint32_t same = 0;
  for_lanes(mask, [&](unsigned lane) { same |= index[lane] == index[lead] ? 1u << lane : 0; });
  const auto target = static_cast<std::uint32_t>(table[1 + index[lead]]);
  if (same == warp.mask) {
    warp.pc = target;
    return;
  }
  // The other lanes execute the operation again.
  --warp.pc;
  diverge(warp, same, target, op.c);
}

void join_here(const Op&, Warp& warp, std::uint32_t) {
  const std::uint32_t pc = warp.pc;
  Frame* frame = warp.frame;
  while (warp.join != nullptr && !warp.join->is_return && warp.join->pc == pc &&
         warp.join->frame == frame) {
    Join* join = warp.join;
    join->arrived |= warp.mask;
    if (join->arrived != join->pending) return drop_current(warp);
    pass(warp, join);
  }
  ++warp.pc;
}

namespace {

void copy_blob(Warp& warp, const Frame& from, ParamBlob source, Frame& to, ParamBlob target,
               std::uint32_t mask) {
  const std::size_t bytes = std::min(source.bytes, target.bytes);
  (void)warp;
  for_lanes(mask, [&](unsigned lane) {
    std::memcpy(to.registers.data + target.cell + std::size_t{target.bytes} * lane,
                from.registers.data + source.cell + std::size_t{source.bytes} * lane, bytes);
  });
}

// args: number of arguments, then {cell, bytes} of each, number of results, then those.
void enter(const Op& op, Warp& warp, std::uint32_t mask, const Function& function) {
  const unsigned lead = static_cast<unsigned>(std::countr_zero(mask));
  if (warp.frames.size() >= kMaxDepth ||
      warp.frame->local_base + warp.frame->function->local_bytes + function.local_bytes >
          warp.local_bytes)
    throw Fault{"stack overflow", lead, "call of " + function.name};
  const std::int32_t* args = warp.frame->function->args.data() + op.args;
  if (static_cast<std::size_t>(args[0]) != function.params.size())
    throw Fault{"invalid", lead, "call of " + function.name + " with other parameters"};
  Frame* caller = warp.frame;
  Frame* callee = new_frame(warp, function, caller, &op);
  for (std::int32_t i = 0; i < args[0]; ++i)
    copy_blob(warp, *caller, {args[1 + 2 * i], static_cast<std::uint32_t>(args[2 + 2 * i])},
              *callee, function.params[static_cast<std::size_t>(i)], mask);
  Join* join = warp.new_join();
  join->pc = warp.pc + 1;
  join->frame = caller;
  join->pending = mask;
  join->parent = warp.join;
  join->is_return = true;
  warp.join = join;
  warp.frame = callee;
  warp.regs = callee->registers.data;
  warp.pc = 0;
  warp.mask = mask;
}

// Lanes that no longer run are not waited for.
void forget(Warp& warp, Join* join, std::uint32_t lanes) {
  while (join != nullptr) {
    Join* parent = join->parent;
    join->pending &= ~lanes;
    if (join->pending == 0) {
      warp.free_join(join);
    } else if (join->arrived == join->pending) {
      Split split;
      split.frame = join->frame;
      split.join = parent;
      split.pc = join->pc;
      split.mask = join->arrived;
      warp.splits.push_back(split);
      warp.free_join(join);
    }
    join = parent;
  }
}

}  // namespace

void call(const Op& op, Warp& warp, std::uint32_t mask) {
  enter(op, warp, mask, *warp.grid->program->functions[op.imm]);
}

void call_indirect(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto* target = warp.source<std::uint64_t>(op.a);
  const unsigned lead = static_cast<unsigned>(std::countr_zero(mask));
  const std::uint64_t index = target[lead] - kFunctionWindow;
  if (index >= warp.grid->program->functions.size() ||
      warp.grid->program->functions[index]->entry ||
      warp.grid->program->functions[index]->code.empty())
    throw Fault{"invalid", lead, "call of address " + hex(target[lead])};
  std::uint32_t same = 0;
  for_lanes(mask, [&](unsigned lane) { same |= target[lane] == target[lead] ? 1u << lane : 0; });
  if (same != mask) {  // one function after the other; they join at the next operation
    Join* join = warp.new_join();
    join->pc = warp.pc + 1;
    join->frame = warp.frame;
    join->pending = mask;
    join->parent = warp.join;
    warp.join = join;
    Split other = current(warp);
    other.mask = mask & ~same;
    warp.splits.push_back(other);
    warp.mask = same;
  }
  enter(op, warp, same, *warp.grid->program->functions[index]);
}

void exit_lanes(const Op&, Warp& warp, std::uint32_t mask) {
  warp.live &= ~mask;
  forget(warp, warp.join, mask);
  const std::uint32_t rest = warp.mask & ~mask;
  if (warp.live == 0) {
    --warp.block->running;
    warp_exited(warp);
  }
  complete_barriers_after_exit(warp);
  if (rest == 0) return drop_current(warp);
  warp.mask = rest;
  ++warp.pc;
}

void return_from(const Op& op, Warp& warp, std::uint32_t mask) {
  if (warp.frame->caller == nullptr) return exit_lanes(op, warp, mask);
  Join* join = warp.join;
  while (join != nullptr && !join->is_return) join = join->parent;
  if (join == nullptr) throw Fault{"invalid", 0, "return without a call"};
  Frame* frame = warp.frame;
  const Op& call_op = *frame->call;
  const std::int32_t* args = frame->caller->function->args.data() + call_op.args;
  args += 1 + 2 * args[0];
  const auto results =
      std::min<std::size_t>(static_cast<std::size_t>(args[0]), frame->function->results.size());
  for (std::size_t i = 0; i < results; ++i)
    copy_blob(warp, *frame, frame->function->results[i], *frame->caller,
              {args[1 + 2 * i], static_cast<std::uint32_t>(args[2 + 2 * i])}, mask);
  join->arrived |= mask;
  const std::uint32_t rest = warp.mask & ~mask;
  if (join->arrived == join->pending) {
    pass(warp, join);
    free_frame(warp, frame);
  } else if (rest != 0) {
    warp.mask = rest;
    ++warp.pc;
  } else {
    drop_current(warp);
  }
}

void trap(const Op&, Warp&, std::uint32_t mask) {
  throw Fault{"trap", static_cast<unsigned>(std::countr_zero(mask)), "the kernel trapped"};
}

}  // namespace gpk::sim
