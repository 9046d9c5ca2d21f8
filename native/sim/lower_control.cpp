// Branches, calls, barriers and operations between lanes.
#include <algorithm>

#include "sim/atomics.h"
#include "sim/barriers.h"
#include "sim/control.h"
#include "sim/heap.h"
#include "sim/lower.h"
#include "sim/machine.h"
#include "sim/warp_ops.h"

namespace gpk::sim {

bool Lowering::lower_control() {
  if (root_ == "bra") return lower_bra(), true;
  if (root_ == "brx") return lower_brx(), true;
  if (root_ == "call") return lower_call(), true;
  if (root_ == "bar" || root_ == "barrier") return lower_bar(), true;
  if (root_ == "ret" || root_ == "exit") {
    take("uni");
    no_more_modifiers();
    emit(root_ == "ret" ? return_from : exit_lanes).control = true;
    return true;
  }
  if (root_ == "trap" || root_ == "brkpt") {
    no_more_modifiers();
    emit(root_ == "trap" ? trap : nothing);
    return true;
  }
  if (root_ == "nanosleep") {
    take("u32");
    no_more_modifiers();
    emit(yield_warp);
    return true;
  }
  return false;
}

void Lowering::lower_bra() {
  take("uni");
  no_more_modifiers();
  expect_operands(1, 1);
  if (operand(0).kind != Kind::kSymbol) fail("expected a label");
  const std::size_t target = label(operand(0).name, inst_->scope);
  if (target == SIZE_MAX) fail("unknown label '" + std::string(operand(0).name) + "'");
  emit(branch).control = true;
  fixups_.push_back({out_.code.size() - 1, target, -1});
}

void Lowering::lower_brx() {
  if (!take("idx")) unsupported();
  take("uni");
  no_more_modifiers();
  expect_operands(2, 2);
  const Cell index = source(0, Type::kU32);
  const ast::LabelList* list = nullptr;
  for (const ast::LabelList& one : source_.label_lists)
    if (one.name == operand(1).name) list = &one;
  if (list == nullptr) fail("unknown list of branch targets");
  skip_unless_guard();
  std::vector<std::int32_t> table(list->targets.size() + 1);
  table[0] = static_cast<std::int32_t>(list->targets.size());
  const std::uint32_t at = args(table);
  Op& op = emit(branch_table);
  op.control = true;
  op.a = index;
  op.args = at;
  for (std::size_t i = 0; i < list->targets.size(); ++i) {
    const std::size_t target = label(list->targets[i], list->scope);
    if (target == SIZE_MAX) fail("unknown label '" + std::string(list->targets[i]) + "'");
    fixups_.push_back({out_.code.size() - 1, target, static_cast<std::int64_t>(at + 1 + i)});
  }
  end_skip();
}

void Lowering::lower_call() {
  take("uni");
  no_more_modifiers();
  std::size_t at = 0;
  const std::vector<Operand>* results = nullptr;
  const std::vector<Operand>* arguments = nullptr;
  if (operand(0).kind == Kind::kList) results = &operand(at++).elements;
  const Operand& target = operand(at++);
  if (at < operands() && operand(at).kind == Kind::kList) arguments = &operand(at++).elements;
  std::vector<std::int32_t> values;
  const auto add = [&](const std::vector<Operand>* list) {
    values.push_back(list == nullptr ? 0 : static_cast<std::int32_t>(list->size()));
    if (list == nullptr) return;
    for (const Operand& one : *list) {
      const ast::Variable* variable =
          one.kind == Kind::kSymbol ? find_variable(one.name, inst_->scope) : nullptr;
      if (variable == nullptr && one.kind == Kind::kSymbol) variable = find_param(one.name);
      if (variable == nullptr || variable->space != ast::Variable::Space::kParam)
        fail("argument is no .param variable");
      const ParamBlob value = blob(*variable);
      values.push_back(value.cell);
      values.push_back(static_cast<std::int32_t>(value.bytes));
    }
  };
  add(arguments);
  add(results);
  const std::size_t count = arguments == nullptr ? 0 : arguments->size();
  const std::uint32_t where = args(values);
  if (target.kind == Kind::kSymbol) {
    if (target.name == "vprintf" || target.name == "__assertfail") {
      const bool prints = target.name == "vprintf";
      if (count < (prints ? 2 : 3)) fail("too few arguments");
      emit(prints ? print : assert_fail).args = where;
      return;
    }
    const auto it = symbols_.functions.find(target.name);
    const bool allocates = target.name == "malloc";
    if ((allocates || target.name == "free") &&
        (it == symbols_.functions.end() || !module_.functions[it->second].defined)) {
      if (count != 1 || (allocates && (results == nullptr || results->size() != 1)))
        fail("other parameters than '" + std::string(target.name) + "'");
      emit(allocates ? heap_allocate : heap_free).args = where;
      return;
    }
    if (it == symbols_.functions.end()) fail("unknown function '" + std::string(target.name) + "'");
    const ast::Function& callee = module_.functions[it->second];
    if (!callee.defined) fail("function '" + callee.name + "' is not defined");
    if (callee.entry) fail("call of an entry");
    if (callee.params.size() != count ||
        callee.results.size() != (results == nullptr ? 0 : results->size()))
      fail("other parameters than '" + callee.name + "'");
    if (std::find(out_.callees.begin(), out_.callees.end(), it->second) == out_.callees.end())
      out_.callees.push_back(it->second);
    skip_unless_guard();
    Op& op = emit(call);
    op.control = true;
    op.imm = it->second;
    op.args = where;
  } else {
    const Cell address_cell = source(target, Type::kU64);
    out_.calls_indirectly = true;
    skip_unless_guard();
    Op& op = emit(call_indirect);
    op.control = true;
    op.a = address_cell;
    op.args = where;
  }
  end_skip();
}

void Lowering::lower_bar() {
  if (take("warp")) {
    if (!take("sync")) unsupported();
    no_more_modifiers();
    expect_operands(1, 1);
    const Cell members = source(0, Type::kU32);
    skip_unless_guard();
    emit_sync(nothing, members);
    return end_skip();
  }
  if (take("cluster")) {
    const bool arrive = take("arrive");
    if (!arrive && !take("wait")) unsupported();
    take_one_of({"release", "acquire", "relaxed"});
    take("aligned");
    no_more_modifiers();
    skip_unless_guard();
    emit(arrive ? cluster_arrive : cluster_wait).control = true;
    return end_skip();
  }
  take("cta");
  const bool aligned = take("aligned") || root_ == "bar";
  unsigned mode = kSync;
  if (take("arrive"))
    mode = kArrive;
  else if (take("red")) {
    const int kind = take_one_of({"popc", "and", "or"});
    if (kind < 0) unsupported();
    take("u32");
    take("pred");
    mode = kRedPopc + static_cast<unsigned>(kind);
  } else if (!take("sync")) {
    unsupported();
  }
  no_more_modifiers();
  Op fields;
  std::size_t at = 0;
  bool negated = false;
  fields.b = kNoCell;
  if (mode >= kRedPopc) {
    expect_operands(3, 4);
    fields.dst = mode == kRedPopc ? destination(0, Type::kU32) : predicate_destination(operand(0));
    if (fields.dst == kNoCell) fail("no destination");
    at = 1;
    fields.c = predicate_source(operand(operands() - 1), negated);
    if (operands() == 4) fields.b = source(2, Type::kU32);
  } else {
    expect_operands(mode == kArrive ? 2 : 1, 2);
    if (operands() == 2) fields.b = source(1, Type::kU32);
  }
  fields.a = source(at, Type::kU32);
  fields.mode = static_cast<std::uint8_t>(mode);
  fields.mode2 = aligned ? 1 : 0;
  fields.flags = negated ? 1 : 0;
  fields.control = true;
  skip_unless_guard();
  emit(barrier, fields);
  end_skip();
}

bool Lowering::lower_warp() {
  if (root_ == "shfl" || root_ == "vote" || root_ == "match" || root_ == "redux" ||
      root_ == "elect")
    return lower_vote_shfl(), true;
  if (root_ == "activemask") {
    take("b32");
    no_more_modifiers();
    expect_operands(1, 1);
    const Cell dst = destination(0, Type::kB32);
    emit(active_mask).dst = dst;
    return true;
  }
  if (root_ == "ldmatrix" || root_ == "stmatrix") return lower_matrix(root_ == "ldmatrix"), true;
  if (root_ == "mma") return lower_mma(), true;
  if (root_ == "wgmma") return lower_wgmma(), true;
  return false;
}

void Lowering::lower_vote_shfl() {
  if (!take("sync")) unsupported();
  Op fields;
  Handler handler = nullptr;
  Cell members = 0;
  Cell second = kNoCell;
  const auto pair = [&](Type type) {
    const Operand& to = operand(0);
    if (to.kind == Kind::kPair) {
      fields.dst = to.elements[0].kind == Kind::kSink ? (root_ == "elect" ? kNoCell : temporary(4))
                                                      : destination(to.elements[0], type);
      second = predicate_destination(to.elements[1]);
    } else {
      fields.dst = destination(to, type);
    }
  };
  if (root_ == "shfl") {
    const int mode = take_one_of({"up", "down", "bfly", "idx"});
    if (mode < 0 || !take("b32")) unsupported();
    expect_operands(5, 5);
    pair(Type::kB32);
    fields.a = source(1, Type::kB32);
    fields.b = source(2, Type::kU32);
    fields.c = source(3, Type::kU32);
    members = source(4, Type::kU32);
    fields.mode = static_cast<std::uint8_t>(mode);
    handler = shuffle;
  } else if (root_ == "vote") {
    const int mode = take_one_of({"all", "any", "uni", "ballot"});
    if (mode < 0) unsupported();
    take(mode == 3 ? "b32" : "pred");
    expect_operands(3, 3);
    bool negated = false;
    fields.dst = mode == 3 ? destination(0, Type::kB32) : predicate_destination(operand(0));
    if (fields.dst == kNoCell) fail("no destination");
    fields.a = predicate_source(operand(1), negated);
    members = source(2, Type::kU32);
    fields.mode = static_cast<std::uint8_t>(mode);
    fields.flags = negated ? 1 : 0;
    handler = vote;
  } else if (root_ == "match") {
    const bool all = take("all");
    if (!all && !take("any")) unsupported();
    const Type type = take_type();
    expect_operands(3, 3);
    pair(Type::kB32);
    fields.a = source(1, type);
    members = source(2, Type::kU32);
    fields.cell_bytes = static_cast<std::uint8_t>(bytes_of(type));
    if (bytes_of(type) < 4) unsupported();
    handler = all ? match_all : match_any;
  } else if (root_ == "redux") {
    std::optional<Atomic> kind;
    for (std::size_t i = 0; i < modifiers_.size() && !kind; ++i)
      if (!taken_[i] && (kind = atomic_named(modifiers_[i]))) taken_[i] = true;
    const Type type = take_type();
    if (!kind || bytes_of(type) != 4 || is_float(type) || *kind == Atomic::kExch ||
        *kind >= Atomic::kInc)
      unsupported();
    expect_operands(3, 3);
    fields.dst = destination(0, type);
    fields.a = source(1, type);
    members = source(2, Type::kU32);
    fields.mode = static_cast<std::uint8_t>(*kind);
    fields.bytes = static_cast<std::uint8_t>(type);
    handler = reduce_warp;
  } else {
    expect_operands(2, 2);
    pair(Type::kB32);
    members = source(1, Type::kU32);
    handler = elect;
  }
  no_more_modifiers();
  skip_unless_guard();
  Op& op = emit_sync(handler, members, {second});
  op.dst = fields.dst;
  op.a = fields.a;
  op.b = fields.b;
  op.c = fields.c;
  op.mode = fields.mode;
  op.bytes = fields.bytes;
  op.cell_bytes = fields.cell_bytes;
  op.flags = fields.flags;
  end_skip();
}

}  // namespace gpk::sim
