// PTX as parsed. Texts are views of the source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/dim3.h"
#include "sim/types.h"

namespace gpk::sim::ast {

struct Operand {
  enum class Kind : unsigned char {
    kRegister,
    kInteger,
    kFloat,
    kSymbol,
    kSpecial,
    kSink,
    kAddress,
    kVector,
    kList,
    kPair,
  };
  Kind kind = Kind::kSink;
  bool negated = false;           // !%p
  int reg = -1;                   // kRegister; kAddress: its base, or -1
  std::uint64_t bits = 0;         // kInteger; kFloat: bits of a double; offset of symbol, address
  std::string_view name;          // kSymbol, kSpecial; kAddress: its base, or empty
  std::vector<Operand> elements;  // kVector, kList, kPair; kAddress: coordinates
};

struct Register {
  Type type;
  std::string name;
};

struct Variable {
  enum class Space : unsigned char { kGlobal, kConst, kShared, kLocal, kParam };
  Space space;
  std::string_view name;
  std::size_t bytes = 0, align = 1;
  bool is_extern = false;
  std::vector<std::byte> init;
  struct Address {  // of another symbol, in the initialiser
    std::size_t at;
    std::string_view symbol;
    std::uint64_t offset;
    unsigned bytes, shift;
  };
  std::vector<Address> addresses;
  int line = 0;
  int scope = 0;
};

struct Instruction {
  int line = 0;
  int file = 0, source_line = 0;  // of the last .loc
  int guard = -1;                 // a predicate register
  bool guard_negated = false;
  int scope = 0;
  std::string_view opcode;  // with all modifiers
  std::vector<Operand> operands;
};

struct Label {
  std::string_view name;
  int scope;
  std::size_t at;  // index of the instruction that follows
};

struct LabelList {  // .branchtargets
  std::string_view name;
  int scope;
  std::vector<std::string_view> targets;
};

struct Prototype {  // .callprototype
  std::string_view name;
  std::vector<Variable> results, params;
};

struct Function {
  std::string name;
  int line = 0;
  bool entry = false, defined = false;
  std::vector<Variable> params, results;
  std::vector<Register> registers;
  std::vector<Variable> variables;  // .local, .shared, .param of its body
  std::vector<Instruction> body;
  std::vector<Label> labels;
  std::vector<LabelList> label_lists;
  std::vector<Prototype> prototypes;
  std::vector<int> scope_parent;  // of scope i; -1: the function
  unsigned max_threads = 0;
  Dim3 required_block{0, 0, 0}, cluster{0, 0, 0};
};

struct Module {
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::map<int, std::string> files;
  std::string_view text;
  int target = 0;
};

}  // namespace gpk::sim::ast
