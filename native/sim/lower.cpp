#include "sim/lower.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/control.h"
#include "sim/specials.h"

namespace gpk::sim {
namespace {

constexpr std::size_t kMaxFrameBytes = std::size_t{1} << 28;

std::size_t align_up(std::size_t value, std::size_t align) {
  return (value + align - 1) / align * align;
}

}  // namespace

// --- constants ----------------------------------------------------------------------------------
Cell ConstantPool::allocate(unsigned bytes, std::uint64_t bits) {
  size_ += align_up(std::size_t{bytes} * kLanes, 64);
  entries_.push_back({bits, bytes, size_});
  if (size_ > kMaxFrameBytes) throw PtxError(0, "too many constants");
  return -static_cast<Cell>(size_);
}

Cell ConstantPool::constant(std::uint64_t bits, unsigned bytes) {
  if (bytes < 8) bits &= (std::uint64_t{1} << (8 * bytes)) - 1;
  const auto [it, added] = known_.try_emplace({bits, bytes}, 0);
  if (added) it->second = allocate(bytes, bits);
  return it->second;
}

Cell ConstantPool::predicate(bool value) { return constant(value ? kFull : 0, 4); }

Cell ConstantPool::relocated(Relocation::Kind kind, std::uint32_t index, std::uint64_t offset,
                             unsigned bytes) {
  const auto [it, added] =
      relocated_.try_emplace({static_cast<int>(kind), index, offset, bytes}, 0);
  if (added) {
    it->second = allocate(bytes, 0);
    relocations_.push_back({size_, kind, index, offset, static_cast<std::uint8_t>(bytes)});
  }
  return it->second;
}

void ConstantPool::finish(Program& program) {
  program.constants.assign(size_, std::byte{0});
  for (const Entry& entry : entries_)
    for (unsigned lane = 0; lane < kLanes; ++lane)
      std::memcpy(program.constants.data() + (size_ - entry.end) + std::size_t{entry.bytes} * lane,
                  &entry.bits, std::min(entry.bytes, 8u));
  program.relocations = relocations_;
  for (Relocation& relocation : program.relocations) relocation.at = size_ - relocation.at;
}

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
  out_.frame_bytes = align_up(at + bytes, 64);
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
      out_.local_bytes = align_up(out_.local_bytes, variable.align);
      locals_[&variable] = out_.local_bytes;
      out_.local_bytes += variable.bytes;
      if (out_.local_bytes > (1u << 20)) throw PtxError(variable.line, "local memory too large");
    }
  }
  out_.local_bytes = align_up(out_.local_bytes, 16);
  assign_cells();
  for (const ast::Instruction& inst : source_.body)
    keeps_uses_ = keeps_uses_ || inst.opcode.starts_with("wgmma");
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

// Registers share cells where their live ranges, taken in the order of the text, do not overlap.
// A range that a backward branch can re-enter covers the whole loop: every range in it but those of
// registers that live within one basic block, defined there first.
void Lowering::assign_cells() {
  const std::size_t count = source_.registers.size();
  cells_.assign(count, kNoCell);
  constexpr std::size_t kNever = SIZE_MAX;
  std::vector<std::size_t> first(count, kNever), last(count, 0);
  std::vector<bool> defined(count, false);
  std::vector<bool> starts_block(source_.body.size() + 1, false);
  for (const ast::Label& one : source_.labels) starts_block[one.at] = true;
  std::size_t block = 0;  // its first instruction
  const auto mention = [&](int reg, std::size_t at, bool defines) {
    if (reg < 0) return;
    const auto r = static_cast<std::size_t>(reg);
    if (first[r] == kNever) {
      first[r] = at;
      defined[r] = defines;
    } else if (first[r] == at && !defines) {
      defined[r] = false;  // read by the instruction that writes it first
    } else if (first[r] < block) {
      defined[r] = false;  // another path may lead here
    }
    last[r] = at;
  };
  const auto visit = [&](auto& self, const ast::Operand& operand, std::size_t at,
                         bool defines) -> void {
    if (operand.kind == ast::Operand::Kind::kAddress) defines = false;
    mention(operand.reg, at, defines);
    for (const ast::Operand& element : operand.elements) self(self, element, at, defines);
  };
  std::vector<std::pair<std::size_t, std::size_t>> loops;
  for (std::size_t i = 0; i < source_.body.size(); ++i) {
    const ast::Instruction& inst = source_.body[i];
    if (starts_block[i]) block = i;
    mention(inst.guard, i, false);
    // The accumulators of wgmma are read as well.
    const bool writes = inst.guard < 0 && !inst.opcode.starts_with("st") &&
                        !inst.opcode.starts_with("wgmma") && !inst.opcode.starts_with("red.") &&
                        !inst.opcode.starts_with("call");
    for (std::size_t k = 0; k < inst.operands.size(); ++k)
      visit(visit, inst.operands[k], i, writes && k == 0);
    const auto loop_to = [&](std::string_view name) {
      const std::size_t target = label(name, inst.scope);
      if (target != SIZE_MAX && target <= i) loops.emplace_back(target, i);
    };
    if (inst.opcode.starts_with("bra") && !inst.operands.empty()) loop_to(inst.operands[0].name);
    if (inst.opcode.starts_with("bra") || inst.opcode.starts_with("brx"))
      starts_block[i + 1] = true;
    if (inst.opcode.starts_with("brx") && inst.operands.size() > 1)
      for (const ast::LabelList& list : source_.label_lists)
        if (list.name == inst.operands[1].name)
          for (const std::string_view target : list.targets) loop_to(target);
  }
  std::sort(loops.begin(), loops.end());
  for (std::size_t r = 0; r < count; ++r) {
    if (first[r] == kNever) continue;
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [begin, end] : loops) {
        if (begin > last[r]) break;
        if (end < first[r]) continue;
        if (first[r] < begin && last[r] < end) {
          last[r] = end;
          changed = true;
        } else if (first[r] >= begin && !defined[r] && (first[r] > begin || last[r] < end)) {
          first[r] = begin;
          last[r] = std::max(last[r], end);
          changed = true;
        }
      }
    }
  }
  std::vector<std::size_t> order;
  for (std::size_t r = 0; r < count; ++r)
    if (first[r] != kNever) order.push_back(r);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return first[a] < first[b]; });
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
    while (!heap.empty() && heap.front().last < first[r]) {
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
    heap.push_back({last[r], cells_[r]});
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
  if (!lower_alu() && !lower_convert() && !lower_memory() && !lower_control() && !lower_warp() &&
      !lower_async())
    unsupported();
  if (!keeps_uses_) return;
  uses_.copies = root_ == "mov";
  // A chain of wgmma on one accumulator needs no wait.
  if (root_ != "wgmma") out_.register_uses[location_] = std::move(uses_);
  uses_ = {};
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

const ast::Operand& Lowering::operand(std::size_t index) const {
  if (index >= inst_->operands.size()) fail("too few operands");
  return inst_->operands[index];
}

void Lowering::expect_operands(std::size_t least, std::size_t most) const {
  if (operands() < least || operands() > most)
    fail("has " + std::to_string(operands()) + " operands, expected " + std::to_string(least) +
         (most != least ? " to " + std::to_string(most) : ""));
}

unsigned Lowering::register_bytes(const Operand& operand) const {
  if (operand.kind != Kind::kRegister) return 0;
  const Type type = source_.registers[static_cast<std::size_t>(operand.reg)].type;
  if (type == Type::kPred) fail("a predicate where a value is expected");
  return std::max(2u, bytes_of(type));
}

std::uint64_t Lowering::immediate(const Operand& operand) const {
  if (operand.kind != Kind::kInteger) fail("expected an integer constant");
  return operand.bits;
}

Cell Lowering::source(const Operand& operand, Type type) {
  if (type == Type::kPred) fail("unexpected predicate");
  const unsigned bytes = std::max(2u, bytes_of(type));
  switch (operand.kind) {
    case Kind::kRegister: {
      if (operand.negated) fail("negated value");
      const unsigned have = register_bytes(operand);
      if (have != bytes)
        fail("register '" + source_.registers[static_cast<std::size_t>(operand.reg)].name +
             "' has " + std::to_string(have * 8) + " bits, expected " + std::to_string(bytes * 8));
      if (keeps_uses_) uses_.reads.push_back(register_cell(operand.reg));
      return register_cell(operand.reg);
    }
    case Kind::kInteger: return pool_.constant(operand.bits, bytes);
    case Kind::kFloat: {
      const double value = std::bit_cast<double>(operand.bits);
      if (bytes == 8) return pool_.constant(operand.bits, 8);
      if (bytes == 4)
        return pool_.constant(std::bit_cast<std::uint32_t>(static_cast<float>(value)), 4);
      return pool_.constant(round_to(type == Type::kBf16 ? kFormatBf16 : kFormatF16, value,
                                     Rounding::kNearestEven, false),
                            2);
    }
    case Kind::kSpecial: return special(operand.name, bytes);
    case Kind::kSymbol: return symbol_address(operand.name, operand.bits, bytes);
    default: fail("unexpected operand");
  }
}

Cell Lowering::destination(const Operand& operand, Type type) {
  const unsigned bytes = std::max(2u, bytes_of(type));
  if (operand.kind == Kind::kSink) return temporary(bytes);
  if (operand.kind != Kind::kRegister || operand.negated) fail("destination is no register");
  if (register_bytes(operand) != bytes)
    fail("register '" + source_.registers[static_cast<std::size_t>(operand.reg)].name + "' has " +
         std::to_string(register_bytes(operand) * 8) + " bits, expected " +
         std::to_string(bytes * 8));
  if (keeps_uses_) uses_.writes.push_back(register_cell(operand.reg));
  return register_cell(operand.reg);
}

Cell Lowering::predicate_source(const Operand& operand, bool& negated) {
  negated = operand.negated;
  if (operand.kind == Kind::kInteger) return pool_.predicate(operand.bits != 0);
  if (operand.kind == Kind::kSpecial && special_named(operand.name).bytes == 1)
    return special(operand.name, 0);
  if (operand.kind != Kind::kRegister ||
      source_.registers[static_cast<std::size_t>(operand.reg)].type != Type::kPred)
    fail("expected a predicate");
  return register_cell(operand.reg);
}

Cell Lowering::predicate_destination(const Operand& operand) {
  if (operand.kind == Kind::kSink) return kNoCell;
  bool negated = false;
  if (operand.kind != Kind::kRegister) fail("expected a predicate register");
  const Cell cell = predicate_source(operand, negated);
  if (negated) fail("negated destination");
  return cell;
}

Cell Lowering::temporary(unsigned bytes) {
  auto& cells = temporaries_[bytes];
  std::size_t& used = temporaries_used_[bytes];
  if (used == cells.size())
    cells.push_back(allocate_cell(std::size_t{std::max(bytes, 1u)} * kLanes));
  return cells[used++];
}

Cell Lowering::special(std::string_view name, unsigned bytes) {
  const SpecialInfo info = special_named(name);
  if (info.bytes == 0) fail("unknown special register '" + std::string(name) + "'");
  if (info.id >= kClock) {
    const Cell cell = temporary(bytes);
    Op& op = emit(read_clock);
    op.dst = cell;
    op.mode = static_cast<std::uint8_t>(info.id);
    op.cell_bytes = static_cast<std::uint8_t>(bytes);
    return cell;
  }
  const auto key = std::make_pair(static_cast<std::uint16_t>(info.id), bytes);
  const auto [it, added] = specials_.try_emplace(key, 0);
  if (added) {
    it->second = allocate_cell(bytes == 0 ? 4 : std::size_t{bytes} * kLanes);
    out_.specials.push_back({key.first, it->second, static_cast<std::uint8_t>(bytes)});
  }
  return it->second;
}

Cell Lowering::symbol_address(std::string_view name, std::uint64_t offset, unsigned bytes) {
  if (bytes < 4) fail("address in a register of 16 bits");
  if (const ast::Variable* variable = find_variable(name, inst_->scope)) {
    if (variable->space == ast::Variable::Space::kLocal) {
      const Cell cell = temporary(bytes);
      Op& op = emit(local_address);
      op.dst = cell;
      op.imm = locals_.at(variable) + offset;
      op.cell_bytes = static_cast<std::uint8_t>(bytes);
      return cell;
    }
    if (variable->space == ast::Variable::Space::kParam)
      fail("address of parameter '" + std::string(name) + "'");
  }
  if (const ast::Variable* param = find_param(name)) {
    if (!source_.entry) fail("address of parameter '" + std::string(name) + "'");
    for (std::size_t i = 0; i < source_.params.size(); ++i)
      if (&source_.params[i] == param)
        return pool_.relocated(Relocation::Kind::kParam, 0, out_.kernel_params[i].offset + offset,
                               bytes);
  }
  if (const auto it = symbols_.shared.find(name); it != symbols_.shared.end()) {
    if (std::find(out_.shared_used.begin(), out_.shared_used.end(), it->second) ==
        out_.shared_used.end())
      out_.shared_used.push_back(it->second);
    return pool_.relocated(program_.shared[it->second].dynamic ? Relocation::Kind::kDynamicShared
                                                               : Relocation::Kind::kShared,
                           it->second, offset, bytes);
  }
  if (const auto it = symbols_.globals.find(name); it != symbols_.globals.end())
    return pool_.relocated(Relocation::Kind::kGlobal, it->second, offset, bytes);
  if (const auto it = symbols_.functions.find(name); it != symbols_.functions.end())
    return pool_.constant(kFunctionWindow + it->second, bytes);
  fail("unknown symbol '" + std::string(name) + "'");
}

void Lowering::address(Op& op, const Operand& operand) { address_in(op, operand, &Op::a); }

void Lowering::address_in(Op& op, const Operand& operand, Cell Op::* cell) {
  if (operand.kind != Kind::kAddress) fail("expected an address");
  unsigned bytes = 8;
  if (operand.reg >= 0) {
    Operand base;
    base.kind = Kind::kRegister;
    base.reg = operand.reg;
    bytes = register_bytes(base);
    if (bytes != 4 && bytes != 8)
      fail("address register has " + std::to_string(bytes * 8) + " bits");
    op.*cell = register_cell(operand.reg);
    op.imm = operand.bits;
  } else if (!operand.name.empty()) {
    op.*cell = symbol_address(operand.name, operand.bits, 8);
    op.imm = 0;
  } else {
    op.*cell = pool_.constant(operand.bits, 8);
    op.imm = 0;
  }
  op.flags = static_cast<std::uint8_t>((op.flags & ~kAddress64) | (bytes == 8 ? kAddress64 : 0));
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
