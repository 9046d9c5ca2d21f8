// Checked lowering of parsed PTX to micro-operations.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/alu.h"
#include "sim/ast.h"
#include "sim/constant_pool.h"
#include "sim/memory.h"
#include "sim/program.h"

namespace gpk::sim {

struct MmaShape;
struct ScaledMmaShape;
struct ScaleSelector;

enum class AsyncGroup : std::uint8_t;  // races.h

struct SymbolTable {
  std::unordered_map<std::string_view, std::uint32_t> globals, shared, functions;
};

class Lowering {
 public:
  Lowering(Program& program, ConstantPool& pool, const SymbolTable& symbols,
           const ast::Module& module, const ast::Function& source, Function& out);
  void run();

 private:
  using Operand = ast::Operand;
  using Kind = ast::Operand::Kind;

  // --- modifiers of the instruction being lowered ---
  bool take(std::string_view name);
  // The one of `names` that is there: its index, or -1.
  int take_one_of(std::initializer_list<std::string_view> names);
  Type take_type();
  std::optional<Rounding> take_rounding();
  void take_cache_hints();
  void no_more_modifiers() const;
  [[noreturn]] void unsupported() const;
  [[noreturn]] void fail(const std::string& what) const;

  // --- operands ---
  const Operand& operand(std::size_t index) const;
  std::size_t operands() const { return inst_->operands.size(); }
  void expect_operands(std::size_t least, std::size_t most) const;
  Cell source(const Operand& operand, Type type);
  Cell source(std::size_t index, Type type) { return source(operand(index), type); }
  Cell destination(const Operand& operand, Type type);
  Cell destination(std::size_t index, Type type) { return destination(operand(index), type); }
  Cell predicate_source(const Operand& operand, bool& negated);
  Cell predicate_destination(const Operand& operand);
  unsigned register_bytes(const Operand& operand) const;
  Cell register_cell(int reg) const { return cells_[static_cast<std::size_t>(reg)]; }
  std::uint64_t immediate(const Operand& operand) const;
  Cell temporary(unsigned bytes);
  Cell symbol_address(std::string_view name, std::uint64_t offset, unsigned bytes);
  Cell special(std::string_view name, unsigned bytes);
  // Base and offset of an address operand into op.a, op.imm and op.flags.
  void address(Op& op, const Operand& operand);
  void address_in(Op& op, const Operand& operand, Cell Op::* cell);
  std::uint32_t args(const std::vector<std::int32_t>& values);

  Op& emit(Handler handler);  // guarded as the instruction; valid until the next emit
  Op& emit(Handler handler, const Op& fields);
  Op& emit_sync(Handler handler, Cell members, std::vector<std::int32_t> more = {});
  Op& emit_alu(Alu alu, Type type, Cell dst, Cell a, Cell b = 0, Cell c = 0, unsigned flags = 0,
               Rounding rounding = Rounding::kNearestEven);
  void skip_unless_guard();  // branches around what must run for whole splits
  void end_skip();

  // --- registers ---
  void assign_cells();
  Cell allocate_cell(std::size_t bytes);

  // --- instructions ---
  void lower(const ast::Instruction& inst);
  Instruction describe() const;
  Type value_type(Type reg) const;
  bool lower_alu();
  bool lower_half_words();
  bool lower_convert();
  bool lower_memory();
  bool lower_control();
  bool lower_warp();
  bool lower_async();
  void lower_arithmetic(Alu alu);
  void lower_mul_mad(bool mad);
  void lower_minmax(bool max);
  void lower_logic(Alu alu);
  void lower_transcendental(Alu alu);
  void lower_setp(bool set);
  void lower_mov();
  void lower_selp();
  void lower_slct();
  void lower_cvt();
  void lower_access(bool load);
  void lower_param_access(bool load, const ast::Variable& variable, const Operand& address,
                          const Operand& data, Type type, unsigned count);
  void sign_extend(const Operand& data, Type type);
  void lower_atom(bool reduction);
  void lower_bra();
  void lower_brx();
  void lower_call();
  void lower_bar();
  void lower_vote_shfl();
  std::pair<Type, Type> take_four_bit_types();
  void check_sparse_mma(MmaShape& shape);
  ScaledMmaShape take_scaled_shape();
  ScaleSelector scale_selector(const Operand& pair, std::int32_t num_scales,
                               unsigned threads) const;
  void lower_scaled_mma();
  void lower_mma();
  void lower_wgmma();
  void lower_matrix(bool load);
  void lower_mbarrier();
  void lower_cp();
  void lower_commit(AsyncGroup group);
  void lower_wait(AsyncGroup group);
  void lower_bulk();
  void lower_tensor();
  Space take_space(Space fallback);

  std::size_t label(std::string_view name, int scope) const;
  const ast::Variable* find_variable(std::string_view name, int scope) const;
  const ast::Variable* find_param(std::string_view name) const;
  ParamBlob blob(const ast::Variable& variable) const;
  std::uint32_t add_location();

  Program& program_;
  ConstantPool& pool_;
  const SymbolTable& symbols_;
  const ast::Module& module_;
  const ast::Function& source_;
  Function& out_;

  const ast::Instruction* inst_ = nullptr;
  std::string_view root_;
  std::vector<std::string_view> modifiers_;
  std::vector<bool> taken_;
  std::uint32_t location_ = 0;
  bool unguarded_ = false;
  std::size_t skip_op_ = SIZE_MAX;

  std::vector<Cell> cells_;                             // of registers
  std::map<const ast::Variable*, ParamBlob> blobs_;     // .param variables
  std::map<const ast::Variable*, std::size_t> locals_;  // offsets of .local variables
  std::unordered_map<std::string_view, const ast::Variable*> params_by_name_;
  std::unordered_map<std::string_view, std::vector<const ast::Label*>> labels_;
  std::map<std::pair<std::uint16_t, unsigned>, Cell> specials_;
  std::map<unsigned, std::vector<Cell>> temporaries_;
  std::map<unsigned, std::size_t> temporaries_used_;
  Cell carry_ = kNoCell;
  std::vector<std::size_t> op_of_;  // first op of instruction i
  struct Fixup {
    std::size_t op;
    std::size_t target;  // an instruction
    std::int64_t arg;    // index in args, or -1: op.imm
  };
  std::vector<Fixup> fixups_;
};

// Inserts joins at immediate post-dominators. Branch targets in `code` are op indices.
void insert_joins(Function& function);

}  // namespace gpk::sim
