// Asynchronous copies and mbarriers.
#include <cstring>

#include "sim/async_copy.h"
#include "sim/atomics.h"
#include "sim/barriers.h"
#include "sim/control.h"
#include "sim/lower.h"
#include "sim/machine.h"
#include "sim/mbarrier.h"
#include "sim/races.h"

namespace gpk::sim {

bool Lowering::lower_async() {
  if (root_ == "mbarrier") return lower_mbarrier(), true;
  if (root_ == "cp") return lower_cp(), true;
  return false;
}

void Lowering::lower_mbarrier() {
  Op fields;
  fields.b = kNoCell;
  fields.dst = kNoCell;
  static constexpr std::string_view kIgnored[] = {
      "release", "acquire",    "relaxed", "cta",         "cluster",
      "b64",     "noComplete", "shared",  "shared::cta", "shared::cluster"};
  MbarrierOp kind = MbarrierOp::kInit;
  const bool parity = take("parity");
  if (take("init"))
    kind = MbarrierOp::kInit;
  else if (take("inval"))
    kind = MbarrierOp::kInvalidate;
  else if (take("arrive"))
    kind = take("expect_tx") ? MbarrierOp::kArriveExpect : MbarrierOp::kArrive;
  else if (take("arrive_drop"))
    kind = MbarrierOp::kArriveDrop;
  else if (take("expect_tx"))
    kind = MbarrierOp::kExpect;
  else if (take("complete_tx"))
    kind = MbarrierOp::kComplete;
  else if (take("test_wait") || take("try_wait"))
    kind = parity ? MbarrierOp::kTestParity : MbarrierOp::kTest;
  else if (take("pending_count"))
    kind = MbarrierOp::kPendingCount;
  else
    unsupported();
  for (const std::string_view name : kIgnored) take(name);
  no_more_modifiers();
  fields.mode = static_cast<std::uint8_t>(kind);
  std::size_t at = 0;
  switch (kind) {
    case MbarrierOp::kPendingCount: {
      expect_operands(2, 2);
      const Cell a = source(1, Type::kB64);
      fields.dst = destination(0, Type::kU32);
      fields.a = a;
      emit(mbarrier, fields);
      return;
    }
    case MbarrierOp::kInit:
    case MbarrierOp::kExpect:
    case MbarrierOp::kComplete:
      expect_operands(2, 2);
      fields.b = source(1, Type::kU32);
      break;
    case MbarrierOp::kInvalidate: expect_operands(1, 1); break;
    case MbarrierOp::kTest:
    case MbarrierOp::kTestParity:
      expect_operands(3, 4);
      fields.dst = predicate_destination(operand(0));
      if (fields.dst == kNoCell) fail("no destination");
      fields.b = source(2, parity ? Type::kU32 : Type::kB64);
      at = 1;
      break;
    default: {
      // The state is left out where the barrier is another block's.
      const bool stateful = operand(0).kind != Kind::kAddress;
      at = stateful ? 1 : 0;
      expect_operands(at + (kind == MbarrierOp::kArriveExpect ? 2 : 1), at + 2);
      if (stateful && operand(0).kind != Kind::kSink) fields.dst = destination(0, Type::kB64);
      if (operands() > at + 1) fields.b = source(at + 1, Type::kU32);
      break;
    }
  }
  address(fields, operand(at));
  emit(mbarrier, fields);
}

void Lowering::lower_commit(AsyncGroup group) {
  no_more_modifiers();
  expect_operands(0, 0);
  emit(async_commit).mode = static_cast<std::uint8_t>(group);
}

void Lowering::lower_wait(AsyncGroup group) {
  const bool reads = take("read");
  no_more_modifiers();
  expect_operands(0, 1);  // wait_all has none
  const std::uint64_t left = operands() == 0 ? ~std::uint64_t{0} : immediate(operand(0));
  Op& op = emit(group == AsyncGroup::kWgmma ? warpgroup_wait : async_wait);
  op.control = group == AsyncGroup::kWgmma;
  op.mode = static_cast<std::uint8_t>(group);
  op.mode2 = reads ? 1 : 0;
  op.imm = left;
}

void Lowering::lower_cp() {
  const bool reduces = take("reduce");
  if (!take("async")) unsupported();
  if (take("bulk")) {
    if (take("commit_group")) return lower_commit(AsyncGroup::kBulk);
    if (take("wait_group")) return lower_wait(AsyncGroup::kBulk);
    if (take("prefetch")) {
      emit(nothing);
      return;
    }
    BulkCopy copy{};
    copy.reduction = -1;
    copy.multicast = copy.barrier = copy.bytes = kNoCell;
    const bool tensor = take("tensor");
    if (tensor) copy.rank = take_one_of({"1d", "2d", "3d", "4d", "5d"}) + 1;
    if (tensor && copy.rank == 0) unsupported();
    take("tile");
    const bool multicast = take("multicast::cluster");
    const bool hint = take("L2::cache_hint");
    const bool grouped = take("bulk_group");
    const bool counted = take("mbarrier::complete_tx::bytes");
    // Spaces stand in order: target, source.
    int spaces[2] = {-1, -1};
    for (std::size_t i = 0, k = 0; i < modifiers_.size() && k < 2; ++i) {
      if (taken_[i]) continue;
      const std::string_view name = modifiers_[i];
      const int space = name == "global"            ? 0
                        : name == "shared::cluster" ? 1
                        : name == "shared::cta"     ? 2
                                                    : -1;
      if (space < 0) continue;
      spaces[k++] = space;
      taken_[i] = true;
    }
    if (spaces[0] < 0 || spaces[1] < 0) unsupported();
    if (reduces) {
      for (std::size_t i = 0; i < modifiers_.size() && copy.reduction < 0; ++i) {
        const auto kind = atomic_named(modifiers_[i]);
        if (taken_[i] || !kind) continue;
        copy.reduction = static_cast<int>(*kind);
        taken_[i] = true;
      }
      take("noftz");
      if (copy.reduction < 0 || copy.reduction == static_cast<int>(Atomic::kExch) ||
          copy.reduction == static_cast<int>(Atomic::kCas))
        unsupported();
      if (!tensor) {
        const Type type = take_type();
        if (!has_atomic(static_cast<Atomic>(copy.reduction), type)) unsupported();
        copy.type = static_cast<int>(type);
      }
    }
    no_more_modifiers();
    copy.direction = spaces[0] == 0   ? BulkCopy::kSharedToGlobal
                     : spaces[1] == 0 ? BulkCopy::kGlobalToShared
                                      : BulkCopy::kSharedToShared;
    const bool to_global = copy.direction == BulkCopy::kSharedToGlobal;
    if (to_global ? !grouped : !counted) unsupported();
    if (tensor && copy.direction == BulkCopy::kSharedToShared) unsupported();
    const std::size_t count =
        (tensor ? 2 : 3) + (to_global ? 0 : 1) + (multicast ? 1 : 0) + (hint ? 1 : 0);
    expect_operands(count, count);
    const auto resolve = [&](const Operand& where, std::int32_t& cell, std::int32_t& offset,
                             std::int32_t& wide) {
      Op fields;
      address(fields, where);
      cell = fields.a;
      offset = static_cast<std::int32_t>(fields.imm);
      wide = (fields.flags & kAddress64) != 0 ? 1 : 0;
    };
    resolve(operand(0), copy.target, copy.target_offset, copy.target_wide);
    resolve(operand(1), copy.source, copy.source_offset, copy.source_wide);
    std::vector<std::int32_t> coordinates;
    std::size_t at = 2;
    if (tensor) {
      const Operand& map = operand(to_global ? 0 : 1);
      if (map.elements.size() != 1 || map.elements[0].kind != Kind::kVector ||
          map.elements[0].elements.size() != static_cast<std::size_t>(copy.rank))
        fail("expected " + std::to_string(copy.rank) + " coordinates");
      for (const Operand& one : map.elements[0].elements)
        coordinates.push_back(source(one, Type::kS32));
    } else {
      copy.bytes = source(at++, Type::kU32);
    }
    if (!to_global) resolve(operand(at++), copy.barrier, copy.barrier_offset, copy.barrier_wide);
    if (multicast) copy.multicast = source(at++, Type::kU16);
    std::vector<std::int32_t> values(sizeof copy / sizeof(std::int32_t));
    std::memcpy(values.data(), &copy, sizeof copy);
    values.insert(values.end(), coordinates.begin(), coordinates.end());
    const std::uint32_t where = args(values);
    emit(copy_bulk).args = where;
    return;
  }
  if (reduces) unsupported();
  if (take("commit_group")) return lower_commit(AsyncGroup::kCopy);
  if (take("wait_group") || take("wait_all")) return lower_wait(AsyncGroup::kCopy);
  if (take("mbarrier")) {
    if (!take("arrive")) unsupported();
    const bool noinc = take("noinc");
    take_space(Space::kShared);
    take("b64");
    no_more_modifiers();
    expect_operands(1, 1);
    Op fields;
    address(fields, operand(0));
    fields.mode = noinc ? 1 : 0;
    emit(copy_arrive, fields);
    return;
  }
  take_cache_hints();
  if (take_space(Space::kGeneric) == Space::kGeneric) unsupported();
  take_space(Space::kGeneric);
  no_more_modifiers();
  expect_operands(3, 5);
  Op fields;
  const std::uint64_t bytes = immediate(operand(2));
  if (bytes != 4 && bytes != 8 && bytes != 16) fail("copies 4, 8 or 16 bytes");
  fields.c = kNoCell;
  if (operands() > 3 &&
      !(operand(3).kind == Kind::kRegister &&
        source_.registers[static_cast<std::size_t>(operand(3).reg)].type != Type::kPred &&
        register_bytes(operand(3)) == 8)) {
    if (operand(3).kind == Kind::kRegister &&
        source_.registers[static_cast<std::size_t>(operand(3).reg)].type == Type::kPred)
      unsupported();
    fields.c = source(3, Type::kU32);
  }
  Op other;
  address(other, operand(1));
  if ((other.flags & kAddress64) == 0) fail("global address of 32 bits");
  const auto from_offset = static_cast<std::int32_t>(other.imm);
  address(fields, operand(0));
  const auto to_offset = static_cast<std::int32_t>(fields.imm);
  fields.b = other.a;
  fields.imm = bytes;
  fields.args = args({to_offset, from_offset});
  emit(copy_async, fields);
}

}  // namespace gpk::sim
