// Loads, stores, atomics and addresses.
#include <algorithm>

#include "sim/atomics.h"
#include "sim/control.h"
#include "sim/lower.h"
#include "sim/machine.h"
#include "sim/races.h"

namespace gpk::sim {

Space Lowering::take_space(Space fallback) {
  if (take("global") || take("const")) return Space::kGlobal;
  if (take("shared") || take("shared::cta")) return Space::kShared;
  if (take("shared::cluster")) return Space::kSharedCluster;
  if (take("local")) return Space::kLocal;
  return fallback;
}

bool Lowering::lower_memory() {
  if (root_ == "ld" || root_ == "ldu") return lower_access(true), true;
  if (root_ == "st") return lower_access(false), true;
  if (root_ == "atom" || root_ == "red") {
    if (root_ == "red" &&
        std::find(modifiers_.begin(), modifiers_.end(), "async") != modifiers_.end())
      return false;
    return lower_atom(root_ == "red"), true;
  }
  if (root_ == "cvta") {
    const bool to = take("to");
    const bool params = take("param") || take("param::entry");
    const Space space = take_space(Space::kGlobal);
    const Type type = take_type();
    no_more_modifiers();
    expect_operands(2, 2);
    const Cell a = source(1, type);
    const Cell dst = destination(0, type);
    const std::uint64_t window = params ? 0
                                 : space == Space::kShared || space == Space::kSharedCluster
                                     ? kSharedWindow
                                 : space == Space::kLocal ? kLocalWindow
                                                          : 0;
    if (window == 0)
      emit_alu(Alu::kMove, type, dst, a);
    else
      emit_alu(to ? Alu::kSub : Alu::kAdd, type, dst, a, pool_.constant(window, bytes_of(type)));
    return true;
  }
  if (root_ == "isspacep") {
    const bool params = take("param") || take("param::entry");
    const Space space = params ? Space::kKernelParam : take_space(Space::kGlobal);
    no_more_modifiers();
    expect_operands(2, 2);
    const Cell a = source(1, Type::kU64);
    const Cell dst = predicate_destination(operand(0));
    if (dst == kNoCell) return true;
    Op& op = emit(is_space);
    op.dst = dst;
    op.a = a;
    op.flags = kAddress64;
    op.mode = static_cast<std::uint8_t>(space);
    return true;
  }
  if (root_ == "mapa" || root_ == "getctarank") {
    take_space(Space::kGeneric);
    const Type type = take_type();
    no_more_modifiers();
    const bool map = root_ == "mapa";
    expect_operands(map ? 3 : 2, map ? 3 : 2);
    const Cell a = source(1, type);
    const Cell b = map ? source(2, Type::kU32) : 0;
    const Cell dst = destination(0, map ? type : Type::kU32);
    Op& op = emit(map ? map_shared : shared_rank);
    op.dst = dst;
    op.a = a;
    op.b = b;
    op.cell_bytes = static_cast<std::uint8_t>(bytes_of(type));
    op.flags = bytes_of(type) == 8 ? kAddress64 : 0;
    return true;
  }
  // What only moves data between caches, or orders what is already in order here.
  if (root_ == "prefetch" || root_ == "prefetchu" || root_ == "discard" ||
      root_ == "applypriority" || root_ == "griddepcontrol" || root_ == "setmaxnreg" ||
      root_ == "pmevent") {
    emit(nothing);
    return true;
  }
  if (root_ == "membar" || root_ == "fence") {
    const bool proxy = take("proxy");
    emit(!proxy && !take("mbarrier_init") ? fence : take("async") ? proxy_fence : nothing);
    return true;
  }
  if (root_ == "createpolicy") {
    if (operands() < 1) fail("too few operands");
    emit_alu(Alu::kMove, Type::kB64, destination(0, Type::kB64), pool_.constant(0, 8));
    return true;
  }
  return false;
}

void Lowering::sign_extend(const Operand& data, Type type) {
  const auto extend = [&](const Operand& one) {
    if (one.kind != Kind::kRegister) return;
    const unsigned have = register_bytes(one);
    const unsigned bytes = bytes_of(type);
    if (have <= bytes) return;
    const Cell cell = register_cell(one.reg);
    const Type word = have == 2 ? Type::kS16 : have == 4 ? Type::kS32 : Type::kS64;
    const Cell shift = pool_.constant((have - bytes) * 8, 4);
    emit_alu(Alu::kShl, word, cell, cell, shift);
    emit_alu(Alu::kShr, word, cell, cell, shift);
  };
  if (data.kind == Kind::kVector)
    for (const Operand& one : data.elements) extend(one);
  else
    extend(data);
}

void Lowering::lower_access(bool load) {
  const bool acquires = take("acquire");
  const bool releases = take("release");
  const bool is_volatile =
      acquires || releases || take("volatile") || take("relaxed") || take("mmio");
  take("weak");
  take_one_of({"cta", "cluster", "gpu", "sys"});
  const bool params = take("param") || take("param::entry") || take("param::func");
  const Space space = take_space(Space::kGeneric);
  take_cache_hints();
  const unsigned count = take("v2") ? 2 : take("v4") ? 4 : take("v8") ? 8 : 1;
  const Type type = take_type();
  no_more_modifiers();
  expect_operands(2, 3);  // a cache policy may follow
  const Operand& where = operand(load ? 1 : 0);
  const Operand& data = operand(load ? 0 : 1);
  const unsigned bytes = bytes_of(type);
  if (type == Type::kPred || bytes == 0) unsupported();
  if (where.kind != Kind::kAddress || !where.elements.empty()) fail("expected an address");
  std::vector<const Operand*> parts;
  if (count > 1) {
    if (data.kind != Kind::kVector || data.elements.size() != count)
      fail("expected a vector of " + std::to_string(count));
    for (const Operand& one : data.elements) parts.push_back(&one);
  } else {
    parts.push_back(&data);
    if (data.kind == Kind::kVector) {
      if (data.elements.size() != 1) fail("unexpected vector");
      parts[0] = &data.elements[0];
    }
  }
  // All registers of a vector have one width, at least that of the type.
  unsigned cell_bytes = 0;
  for (const Operand* one : parts) {
    if (one->kind != Kind::kRegister) continue;
    const unsigned have = register_bytes(*one);
    if (have < bytes) fail("register narrower than the type");
    if (cell_bytes != 0 && cell_bytes != have) fail("registers of different widths");
    cell_bytes = have;
  }
  if (cell_bytes == 0) cell_bytes = std::max(2u, bytes);
  const Type cell_type = cell_bytes == 2   ? Type::kB16
                         : cell_bytes == 4 ? Type::kB32
                         : cell_bytes == 8 ? Type::kB64
                                           : Type::kB128;
  std::vector<std::int32_t> cells;
  for (const Operand* one : parts) {
    if (load && one->kind == Kind::kSink)
      cells.push_back(kNoCell);
    else if (!load && one->kind == Kind::kFloat)
      cells.push_back(source(*one, type));
    else
      cells.push_back(load ? destination(*one, cell_type) : source(*one, cell_type));
  }
  Op fields;
  fields.count = static_cast<std::uint8_t>(count);
  fields.bytes = static_cast<std::uint8_t>(bytes);
  fields.cell_bytes = static_cast<std::uint8_t>(cell_bytes);
  fields.flags = static_cast<std::uint8_t>((is_volatile ? kVolatile : 0) |
                                           (acquires ? kAcquire : 0) | (releases ? kRelease : 0));
  fields.args = args(cells);
  const std::uint64_t end = where.bits + std::uint64_t{bytes} * count;
  const ast::Variable* local =
      where.name.empty() ? nullptr : find_variable(where.name, inst_->scope);
  const ast::Variable* param = where.name.empty() ? nullptr
                               : local != nullptr ? local
                                                  : find_param(where.name);
  if (params && param != nullptr && param->space == ast::Variable::Space::kParam) {
    if (where.bits > param->bytes || end > param->bytes)
      fail("past the end of '" + std::string(where.name) + "'");
    if (source_.entry && local == nullptr) {
      if (!load) fail("store to a kernel's parameter");
      for (std::size_t i = 0; i < source_.params.size(); ++i)
        if (&source_.params[i] == param) fields.imm = out_.kernel_params[i].offset + where.bits;
      emit(load_handler(Space::kKernelParam), fields);
    } else {
      const ParamBlob one = blob(*param);
      fields.a = one.cell;
      fields.c = static_cast<Cell>(one.bytes);
      fields.imm = where.bits;
      emit(load ? load_blob : store_blob, fields);
    }
  } else {
    if (params && (!source_.entry || !load)) unsupported();
    address(fields, where);
    // A symbol's own space, where the instruction names none.
    Space used = params ? Space::kGlobal : space;
    if (used == Space::kGeneric && local != nullptr && local->space == ast::Variable::Space::kLocal)
      fail("generic access to a .local symbol");
    if (used == Space::kGeneric && symbols_.shared.contains(where.name)) used = Space::kShared;
    emit(load ? load_handler(used) : store_handler(used), fields);
  }
  if (load && is_signed(type)) sign_extend(data, type);
}

void Lowering::lower_atom(bool reduction) {
  static constexpr std::uint8_t kOrders[] = {0, kAcquire, kRelease, kAcquire | kRelease,
                                             kAcquire | kRelease};
  const int order = take_one_of({"relaxed", "acquire", "release", "acq_rel", "seq_cst"});
  take_one_of({"cta", "cluster", "gpu", "sys"});
  const Space space = take_space(Space::kGeneric);
  take_cache_hints();
  take("noftz");
  const unsigned count = take("v2") ? 2 : take("v4") ? 4 : take("v8") ? 8 : 1;
  std::optional<Atomic> kind;
  for (std::size_t i = 0; i < modifiers_.size() && !kind; ++i)
    if (!taken_[i] && (kind = atomic_named(modifiers_[i]))) taken_[i] = true;
  const Type type = take_type();
  no_more_modifiers();
  if (!kind || !has_atomic(*kind, type)) unsupported();
  if (count > 1 && *kind == Atomic::kCas) unsupported();
  const std::size_t at = reduction ? 0 : 1;
  const std::size_t data = at + 1;
  expect_operands(data + (*kind == Atomic::kCas ? 2 : 1), data + (*kind == Atomic::kCas ? 3 : 2));
  for (unsigned k = 0; k < count; ++k) {
    const auto part = [&](const Operand& whole) -> const Operand& {
      if (count == 1) return whole;
      if (whole.kind != Kind::kVector || whole.elements.size() != count) fail("expected a vector");
      return whole.elements[k];
    };
    Op fields;
    fields.b = source(part(operand(data)), type);
    fields.c = *kind == Atomic::kCas ? source(data + 1, type) : 0;
    fields.dst = kNoCell;
    if (!reduction && part(operand(0)).kind != Kind::kSink)
      fields.dst = destination(part(operand(0)), type);
    address(fields, operand(at));
    fields.imm += std::uint64_t{k} * bytes_of(type);
    fields.mode = static_cast<std::uint8_t>(*kind);
    fields.mode2 = static_cast<std::uint8_t>(space);
    fields.bytes = static_cast<std::uint8_t>(type);
    if (order >= 0) fields.flags |= kOrders[order];
    emit(atomic, fields);
  }
}

}  // namespace gpk::sim
