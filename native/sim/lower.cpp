#include "sim/lower.h"

#include <algorithm>

#include "base/round_up.h"
#include "sim/barriers.h"
#include "sim/control.h"
#include "sim/liveness.h"

namespace gpk::sim {
// --- a function ---------------------------------------------------------------------------------
Lowering::Lowering(Program& program, ConstantPool& pool, const SymbolTable& symbols,
                   const ast::Module& module, const ast::Function& source, Function& out)
    : program_(program),
      pool_(pool),
      symbols_(symbols),
      module_(module),
      source_(source),
      out_(out) {}

Cell Lowering::allocate_cell(std::size_t bytes) {
  const std::size_t at = out_.frame_bytes;
  out_.frame_bytes = round_up(at + bytes, 64);
  if (out_.frame_bytes > kMaxFrameBytes) throw PtxError(source_.line, "too many registers");
  return static_cast<Cell>(at);
}

void Lowering::run() {
  for (const ast::Label& one : source_.labels) labels_[one.name].push_back(&one);
  for (const ast::Variable& variable : source_.params) params_by_name_[variable.name] = &variable;
  for (const ast::Variable& variable : source_.results) params_by_name_[variable.name] = &variable;
  const auto add_blob = [&](const ast::Variable& variable) {
    if (variable.bytes > 65536) throw PtxError(variable.line, "parameter too large");
    const ParamBlob one{allocate_cell(variable.bytes * kLanes),
                        static_cast<std::uint32_t>(variable.bytes)};
    blobs_[&variable] = one;
    return one;
  };
  if (!source_.entry) {
    for (const ast::Variable& variable : source_.params) out_.params.push_back(add_blob(variable));
    for (const ast::Variable& variable : source_.results)
      out_.results.push_back(add_blob(variable));
  }
  for (const ast::Variable& variable : source_.variables) {
    if (variable.space == ast::Variable::Space::kParam) add_blob(variable);
    if (variable.space == ast::Variable::Space::kLocal) {
      out_.local_bytes = round_up(out_.local_bytes, variable.align);
      locals_[&variable] = out_.local_bytes;
      out_.local_bytes += variable.bytes;
      if (out_.local_bytes > (1u << 20)) throw PtxError(variable.line, "local memory too large");
    }
  }
  out_.local_bytes = round_up(out_.local_bytes, 16);
  assign_cells();
  for (const ast::Instruction& inst : source_.body) {
    op_of_.push_back(out_.code.size());
    lower(inst);
  }
  op_of_.push_back(out_.code.size());
  // Falling off the end returns.
  inst_ = nullptr;
  Op last;
  last.run = return_from;
  last.control = true;
  last.location = location_;
  out_.code.push_back(last);
  for (const Fixup& fixup : fixups_) {
    const auto target = static_cast<std::int32_t>(op_of_[fixup.target]);
    if (fixup.arg >= 0)
      out_.args[static_cast<std::size_t>(fixup.arg)] = target;
    else
      out_.code[fixup.op].imm = static_cast<std::uint64_t>(target);
  }
  insert_joins(out_);
}

// Registers whose live ranges do not overlap share a cell. Ranges are closed: the operations of one
// instruction may read a source after they wrote its destination.
void Lowering::assign_cells() {
  const std::vector<LiveRange> ranges =
      live_ranges(source_, [this](std::string_view name, int scope) { return label(name, scope); });
  cells_.assign(ranges.size(), kNoCell);
  std::vector<std::size_t> order;
  for (std::size_t r = 0; r < ranges.size(); ++r)
    if (ranges[r].used()) order.push_back(r);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return ranges[a].first < ranges[b].first; });
  struct Active {
    std::size_t last;
    Cell cell;
  };
  const auto later = [](const Active& a, const Active& b) { return a.last > b.last; };
  std::map<unsigned, std::vector<Active>> active;  // heaps by size
  std::map<unsigned, std::vector<Cell>> free_cells;
  for (const std::size_t r : order) {
    const Type type = source_.registers[r].type;
    const unsigned size = type == Type::kPred ? 0 : std::max(2u, bytes_of(type));
    auto& heap = active[size];
    auto& cells = free_cells[size];
    while (!heap.empty() && heap.front().last < ranges[r].first) {
      std::pop_heap(heap.begin(), heap.end(), later);
      cells.push_back(heap.back().cell);
      heap.pop_back();
    }
    if (cells.empty()) {
      cells_[r] = allocate_cell(size == 0 ? 4 : std::size_t{size} * kLanes);
    } else {
      cells_[r] = cells.back();
      cells.pop_back();
    }
    heap.push_back({ranges[r].last, cells_[r]});
    std::push_heap(heap.begin(), heap.end(), later);
  }
}

std::size_t Lowering::label(std::string_view name, int scope) const {
  const auto it = labels_.find(name);
  if (it == labels_.end()) return SIZE_MAX;
  for (int s = scope; s >= 0; s = source_.scope_parent[static_cast<std::size_t>(s)])
    for (const ast::Label* one : it->second)
      if (one->scope == s) return one->at;
  return SIZE_MAX;
}

const ast::Variable* Lowering::find_variable(std::string_view name, int scope) const {
  for (int s = scope; s >= 0; s = source_.scope_parent[static_cast<std::size_t>(s)])
    for (const ast::Variable& one : source_.variables)
      if (one.scope == s && one.name == name) return &one;
  return nullptr;
}

const ast::Variable* Lowering::find_param(std::string_view name) const {
  const auto it = params_by_name_.find(name);
  return it == params_by_name_.end() ? nullptr : it->second;
}

ParamBlob Lowering::blob(const ast::Variable& variable) const {
  const auto it = blobs_.find(&variable);
  if (it == blobs_.end())
    fail("'" + std::string(variable.name) + "' is no parameter of a function");
  return it->second;
}

std::uint32_t Lowering::add_location() {
  const Location location{inst_->line, inst_->file, inst_->source_line};
  program_.locations.push_back(location);
  return static_cast<std::uint32_t>(program_.locations.size() - 1);
}

// --- instructions -------------------------------------------------------------------------------
void Lowering::lower(const ast::Instruction& inst) {
  inst_ = &inst;
  location_ = add_location();
  temporaries_used_.clear();
  unguarded_ = false;
  modifiers_.clear();
  std::string_view rest = inst.opcode;
  const std::size_t dot = rest.find('.');
  root_ = rest.substr(0, dot);
  while (dot != std::string_view::npos && !rest.empty()) {
    const std::size_t at = rest.find('.');
    if (at == std::string_view::npos) break;
    const std::size_t next = rest.find('.', at + 1);
    modifiers_.push_back(
        rest.substr(at + 1, next == std::string_view::npos ? next : next - at - 1));
    if (next == std::string_view::npos) break;
    rest = rest.substr(next);
  }
  taken_.assign(modifiers_.size(), false);
  if (inst.guard >= 0 &&
      source_.registers[static_cast<std::size_t>(inst.guard)].type != Type::kPred)
    fail("guard is no predicate");
  program_.instructions.push_back(describe());
  Instruction& described = program_.instructions.back();
  if (lower_alu() || lower_convert())
    described.how = root_ == "selp" ? Instruction::Reads::kSelects : Instruction::Reads::kComputes;
  else if (!lower_memory() && !lower_control() && !lower_warp() && !lower_async())
    unsupported();
  else if (root_ == "shfl")
    described.how = Instruction::Reads::kShuffles;
  else if (root_ == "vote" || root_ == "match" || root_ == "redux" || root_ == "mma")
    described.how = Instruction::Reads::kMixes;
  else if (root_ == "wgmma")
    described.how = Instruction::Reads::kAccumulates;
  described.copies = root_ == "mov";
}

// Registers are typed by their width alone: what an instruction writes is what it says it computes.
Type Lowering::value_type(Type reg) const {
  if (reg == Type::kPred) return reg;
  for (const std::string_view modifier : modifiers_)
    if (const Type type = type_named(modifier); type != Type::kNone) {
      if (bytes_of(type) == bytes_of(reg)) return type;
      if (!is_signed(type)) return reg;  // .wide, or a load of fewer bytes
      return bytes_of(reg) == 8 ? Type::kS64 : bytes_of(reg) == 4 ? Type::kS32 : Type::kS16;
    }
  return reg;
}

Instruction Lowering::describe() const {
  Instruction described;
  std::string_view text = module_.text;
  const auto at = static_cast<std::size_t>(inst_->opcode.data() - text.data());
  const std::size_t begin = text.find_last_of(";{}\n:", at) + 1;
  text = text.substr(begin, std::min(text.find(';', at), text.size()) - begin);
  const std::size_t first = text.find_first_not_of(" \t");
  if (first != std::string_view::npos) described.text = text.substr(first);
  const auto read = [&](int reg) {
    if (reg >= 0) described.reads.push_back(register_cell(reg));
  };
  const auto visit = [&](auto& self, const ast::Operand& operand, bool writes) -> void {
    if (writes && operand.kind != Kind::kAddress && operand.reg >= 0) {
      const ast::Register& reg = source_.registers[static_cast<std::size_t>(operand.reg)];
      described.writes.push_back({reg.name, value_type(reg.type), register_cell(operand.reg)});
    } else {
      read(operand.reg);
    }
    for (const ast::Operand& element : operand.elements)
      self(self, element, writes && operand.kind != Kind::kAddress);
  };
  const std::string_view opcode = inst_->opcode;
  const bool reads_only =
      opcode.starts_with("st") || root_ == "red" || root_ == "call" || root_ == "brx" ||
      root_ == "nanosleep" ||
      ((root_ == "bar" || root_ == "barrier") && opcode.find(".red") == std::string_view::npos);
  read(inst_->guard);
  for (std::size_t k = 0; k < inst_->operands.size(); ++k) {
    const std::size_t before = described.reads.size();
    visit(visit, inst_->operands[k], k == 0 && !reads_only);
    if (root_ == "st" && k == 1) {
      const std::size_t count = described.reads.size() - before;
      if (count == std::max<std::size_t>(inst_->operands[k].elements.size(), 1))
        described.num_stored = static_cast<unsigned>(count);
      described.how = Instruction::Reads::kStores;
    }
  }
  if (root_ == "wgmma" && !inst_->operands.empty()) visit(visit, inst_->operands[0], false);
  return described;
}

bool Lowering::take(std::string_view name) {
  for (std::size_t i = 0; i < modifiers_.size(); ++i) {
    if (taken_[i] || modifiers_[i] != name) continue;
    taken_[i] = true;
    return true;
  }
  return false;
}

int Lowering::take_one_of(std::initializer_list<std::string_view> names) {
  int index = 0;
  for (const std::string_view name : names) {
    if (take(name)) return index;
    ++index;
  }
  return -1;
}

Type Lowering::take_type() {
  for (std::size_t i = 0; i < modifiers_.size(); ++i) {
    if (taken_[i]) continue;
    const Type type = type_named(modifiers_[i]);
    if (type == Type::kNone) continue;
    taken_[i] = true;
    return type;
  }
  unsupported();
}

std::optional<Rounding> Lowering::take_rounding() {
  if (take("rn")) return Rounding::kNearestEven;
  if (take("rz")) return Rounding::kZero;
  if (take("rm")) return Rounding::kDown;
  if (take("rp")) return Rounding::kUp;
  if (take("rna")) return Rounding::kNearestAway;
  return std::nullopt;
}

void Lowering::take_cache_hints() {
  for (std::size_t i = 0; i < modifiers_.size(); ++i) {
    if (taken_[i]) continue;
    const std::string_view name = modifiers_[i];
    if (name.starts_with("L1::") || name.starts_with("L2::") || name == "ca" || name == "cg" ||
        name == "cs" || name == "lu" || name == "cv" || name == "wb" || name == "wt" ||
        name == "nc" || name == "level::eviction_priority")
      taken_[i] = true;
  }
}

void Lowering::no_more_modifiers() const {
  for (const bool one : taken_)
    if (!one) unsupported();
}

void Lowering::unsupported() const {
  throw PtxError(inst_->line, "unsupported instruction '" + std::string(inst_->opcode) + "'");
}

void Lowering::fail(const std::string& what) const {
  throw PtxError(inst_->line, std::string(inst_->opcode) + ": " + what);
}

std::uint32_t Lowering::args(const std::vector<std::int32_t>& values) {
  const auto at = static_cast<std::uint32_t>(out_.args.size());
  out_.args.insert(out_.args.end(), values.begin(), values.end());
  return at;
}

Op& Lowering::emit(Handler handler) {
  if (handler == nullptr) unsupported();
  Op op;
  op.run = handler;
  op.location = location_;
  if (inst_->guard >= 0 && !unguarded_) {
    op.guard = register_cell(inst_->guard);
    op.guard_negated = inst_->guard_negated;
  }
  out_.code.push_back(op);
  return out_.code.back();
}

Op& Lowering::emit(Handler handler, const Op& fields) {
  Op& op = emit(handler);
  const Op fresh = op;
  op = fields;
  op.run = fresh.run;
  op.location = fresh.location;
  op.guard = fresh.guard;
  op.guard_negated = fresh.guard_negated;
  return op;
}

Op& Lowering::emit_sync(Handler handler, Cell members, std::vector<std::int32_t> more) {
  more.insert(more.begin(), members);
  const std::uint32_t at = args(more);
  Op& op = emit(warp_sync);
  op.imm = reinterpret_cast<std::uint64_t>(handler);
  op.control = true;
  op.args = at;
  return op;
}

Op& Lowering::emit_alu(Alu alu, Type type, Cell dst, Cell a, Cell b, Cell c, unsigned flags,
                       Rounding rounding) {
  Op& op = emit(alu_handler(alu, type, flags, rounding));
  op.dst = dst;
  op.a = a;
  op.b = b;
  op.c = c;
  return op;
}

void Lowering::skip_unless_guard() {
  if (inst_->guard < 0 || unguarded_) return;
  Op& op = emit(branch);
  op.control = true;
  op.guard_negated = !op.guard_negated;
  skip_op_ = out_.code.size() - 1;
  unguarded_ = true;
}

void Lowering::end_skip() {
  if (skip_op_ == SIZE_MAX) return;
  out_.code[skip_op_].imm = out_.code.size();
  skip_op_ = SIZE_MAX;
}

}  // namespace gpk::sim
