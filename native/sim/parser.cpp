#include "sim/parser.h"

#include <cstdlib>
#include <optional>
#include <unordered_map>

#include "sim/module.h"
#include "sim/parse_variable.h"
#include "sim/token_stream.h"

namespace gpk::sim {
namespace {

using ast::Operand;
using ast::Variable;

constexpr std::size_t kMaxRegisters = 1 << 20;

class Parser : TokenStream {
 public:
  explicit Parser(std::string_view text) : TokenStream(text) {}

  ast::Module run() {
    while (!at_end()) directive();
    return std::move(module_);
  }

 private:
  // --- the module ---
  void directive() {
    if (accept(";")) return;
    const int line = peek().line;
    const std::string_view name = directive_word();
    if (name.starts_with("version") || name == "address_size") {
      if (name == "address_size" && integer() != 64) throw PtxError(line, "address size is not 64");
      if (name == "version") skip_line();
      return;
    }
    if (name == "target") {
      const std::string target(word());
      if (target.starts_with("sm_")) module_.target = std::atoi(target.c_str() + 3);
      while (accept(",")) word();
      return;
    }
    if (name == "file") return file();
    if (name == "section") {
      word();
      return skip_braces();
    }
    if (name == "pragma") return pragma();
    if (name == "loc") return loc(line);
    if (name == "alias") throw PtxError(line, "unsupported directive '.alias'");
    is_extern_ = false;
    for (std::string_view word_now = name;;) {
      if (word_now == "extern")
        is_extern_ = true;
      else if (word_now == "entry" || word_now == "func")
        return function(word_now == "entry", line);
      else if (const auto space = space_named(word_now))
        return variables(*space, module_.variables, 0);
      else if (word_now != "visible" && word_now != "weak" && word_now != "common" &&
               word_now != "noinline")
        throw PtxError(line, "unsupported directive '." + std::string(word_now) + "'");
      word_now = directive_word();
    }
  }

  void file() {
    const int index = static_cast<int>(integer());
    if (peek().kind != Token::Kind::kString) fail("expected a file name");
    module_.files[index] = std::string(take().text);
    while (accept(",")) integer();
  }

  void pragma() {
    do {
      if (peek().kind != Token::Kind::kString) fail("expected a string");
      take();
    } while (accept(","));
    expect(";");
  }

  void loc(int line) {
    file_ = static_cast<int>(integer());
    source_line_ = static_cast<int>(integer());
    while (!at_end() && peek().line == line) take();
  }

  static std::optional<Variable::Space> space_named(std::string_view name) {
    if (name == "global") return Variable::Space::kGlobal;
    if (name == "const") return Variable::Space::kConst;
    if (name == "shared") return Variable::Space::kShared;
    if (name == "local") return Variable::Space::kLocal;
    if (name == "param") return Variable::Space::kParam;
    return std::nullopt;
  }

  void variables(Variable::Space space, std::vector<Variable>& out, int scope) {
    const VariableShape shape = parse_shape(*this);
    do {
      out.push_back(parse_variable(*this, space, shape));
      out.back().is_extern = is_extern_;
      out.back().scope = scope;
    } while (accept(","));
    expect(";");
  }

  // --- functions ---
  struct RegisterRange {
    Type type;
    std::size_t count;
    std::vector<int> ids;
  };
  struct Scope {
    int id;
    std::unordered_map<std::string_view, int> registers;
    std::unordered_map<std::string_view, RegisterRange> ranges;
  };

  std::vector<Variable> params() {
    std::vector<Variable> result;
    expect("(");
    if (accept(")")) return result;
    do {
      const std::string_view kind = directive_word();
      if (kind == "reg") fail("unsupported register parameter");
      if (kind != "param") fail("expected .param");
      const VariableShape shape = parse_shape(*this);
      result.push_back(parse_variable(*this, Variable::Space::kParam, shape));
    } while (accept(","));
    expect(")");
    return result;
  }

  Dim3 dims() {
    Dim3 result;
    result.x = static_cast<unsigned>(integer());
    if (accept(",")) result.y = static_cast<unsigned>(integer());
    if (accept(",")) result.z = static_cast<unsigned>(integer());
    return result;
  }

  void function(bool entry, int line) {
    ast::Function function;
    function.entry = entry;
    function.line = line;
    if (peek().is("(")) function.results = params();
    function.name = std::string(word());
    if (peek().is("(")) function.params = params();
    for (;;) {
      if (accept(";")) break;
      if (peek().is("{")) {
        function_ = &function;
        body();
        function.defined = true;
        break;
      }
      const std::string_view name = directive_word();
      if (name == "maxntid") {
        const Dim3 block = dims();
        function.max_threads = block.x * block.y * block.z;
      } else if (name == "reqntid") {
        function.required_block = dims();
      } else if (name == "reqnctapercluster") {
        function.cluster = dims();
      } else if (name == "maxclusterrank" || name == "minnctapersm" || name == "maxnreg" ||
                 name == "maxnctapersm") {
        integer();
      } else if (name == "pragma") {
        pragma();
      } else if (name != "explicitcluster" && name != "noreturn" && name != "blocksareclusters" &&
                 name != "abi_preserve" && name != "abi_preserve_control") {
        throw PtxError(line, "unsupported directive '." + std::string(name) + "'");
      }
    }
    module_.functions.push_back(std::move(function));
  }

  void body() {
    scopes_.clear();
    file_ = source_line_ = 0;
    open_scope();
    while (!scopes_.empty()) {
      if (at_end()) fail("expected '}'");
      if (peek().is("{")) {
        open_scope();
      } else if (accept("}")) {
        scopes_.pop_back();
      } else if (!accept(";")) {
        statement();
      }
    }
  }

  void open_scope() {
    expect("{");
    function_->scope_parent.push_back(scopes_.empty() ? -1 : scopes_.back().id);
    scopes_.push_back({static_cast<int>(function_->scope_parent.size()) - 1, {}, {}});
  }

  void statement() {
    const int line = peek().line;
    if (peek().kind == Token::Kind::kWord && peek(1).is(":") && peek().text[0] != '.')
      return label();
    if (peek().kind == Token::Kind::kWord && peek().text[0] == '.') {
      const std::string_view name = directive_word();
      is_extern_ = false;
      if (name == "reg") return registers();
      if (name == "loc") return loc(line);
      if (name == "pragma") return pragma();
      if (name == "file") return file();
      const auto space = space_named(name);
      if (!space) throw PtxError(line, "unsupported directive '." + std::string(name) + "'");
      if (*space == Variable::Space::kGlobal || *space == Variable::Space::kConst)
        return variables(*space, module_.variables, 0);
      return variables(*space, function_->variables, scopes_.back().id);
    }
    instruction();
  }

  void label() {
    const std::string_view name = word();
    expect(":");
    if (peek().is(".branchtargets") || peek().is(".calltargets")) {
      take();
      ast::LabelList list{name, scopes_.back().id, {}};
      do list.targets.push_back(word());
      while (accept(","));
      expect(";");
      function_->label_lists.push_back(std::move(list));
    } else if (accept(".callprototype")) {
      ast::Prototype prototype{name, {}, {}};
      if (peek().is("(")) prototype.results = params();
      word();
      if (peek().is("(")) prototype.params = params();
      accept(".noreturn");
      expect(";");
      function_->prototypes.push_back(std::move(prototype));
    } else {
      function_->labels.push_back({name, scopes_.back().id, function_->body.size()});
    }
  }

  int new_register(Type type, std::string name) {
    if (function_->registers.size() >= kMaxRegisters) fail("too many registers");
    function_->registers.push_back({type, std::move(name)});
    return static_cast<int>(function_->registers.size()) - 1;
  }

  void registers() {
    const std::string_view name = directive_word();
    const Type type = type_named(name);
    if (type == Type::kNone) fail("unsupported register type '." + std::string(name) + "'");
    do {
      const std::string_view reg = word();
      if (accept("<")) {
        const std::uint64_t count = integer();
        if (count > kMaxRegisters) fail("too many registers");
        scopes_.back().ranges[reg] = {type, count, {}};
        expect(">");
      } else {
        scopes_.back().registers[reg] = new_register(type, std::string(reg));
      }
    } while (accept(","));
    expect(";");
  }

  int find_register(std::string_view name) {
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    const bool numbered = digits < name.size() && name.size() - digits < 8;
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto it = scope->registers.find(name); it != scope->registers.end())
        return it->second;
      if (!numbered) continue;
      const auto it = scope->ranges.find(name.substr(0, digits));
      if (it == scope->ranges.end()) continue;
      const auto index = std::strtoul(std::string(name.substr(digits)).c_str(), nullptr, 10);
      if (index >= it->second.count) continue;
      auto& ids = it->second.ids;
      if (ids.size() <= index) ids.resize(index + 1, -1);
      if (ids[index] < 0) ids[index] = new_register(it->second.type, std::string(name));
      return ids[index];
    }
    return -1;
  }

  void instruction() {
    ast::Instruction out;
    out.line = peek().line;
    out.scope = scopes_.back().id;
    out.file = file_;
    out.source_line = source_line_;
    if (accept("@")) {
      out.guard_negated = accept("!");
      const std::string_view name = word();
      out.guard = find_register(name);
      if (out.guard < 0) fail("unknown predicate '" + std::string(name) + "'");
    }
    out.line = peek().line;
    out.opcode = word();
    if (!peek().is(";")) {
      do out.operands.push_back(operand());
      while (accept(","));
    }
    expect(";");
    function_->body.push_back(std::move(out));
  }

  Operand operand() {
    Operand result = simple_operand();
    if (!accept("|")) return result;
    Operand pair;
    pair.kind = Operand::Kind::kPair;
    pair.elements.push_back(std::move(result));
    pair.elements.push_back(simple_operand());
    return pair;
  }

  Operand simple_operand() {
    Operand result;
    if (++depth_ > 16) fail("nested too deeply");
    if (accept("!")) {
      result = simple_operand();
      result.negated = !result.negated;
    } else if (accept("[")) {
      result = address();
    } else if (peek().is("{") || peek().is("(")) {
      const bool list = take().is("(");
      result.kind = list ? Operand::Kind::kList : Operand::Kind::kVector;
      if (!accept(list ? ")" : "}")) {
        do result.elements.push_back(operand());
        while (accept(","));
        expect(list ? ")" : "}");
      }
    } else if (peek().kind == Token::Kind::kNumber || peek().is("-") || peek().is("~")) {
      const Number value = number();
      result.kind = value.is_float ? Operand::Kind::kFloat : Operand::Kind::kInteger;
      result.bits = value.bits;
    } else {
      result = named(word());
    }
    --depth_;
    return result;
  }

  Operand named(std::string_view name) {
    Operand result;
    if (name == "_") return result;
    if (const int reg = find_register(name); reg >= 0) {
      result.kind = Operand::Kind::kRegister;
      result.reg = reg;
      return result;
    }
    result.name = name;
    result.kind = name[0] == '%' ? Operand::Kind::kSpecial : Operand::Kind::kSymbol;
    if (result.kind == Operand::Kind::kSymbol && (peek().is("+") || peek().is("-")))
      result.bits = integer();
    return result;
  }

  Operand address() {
    Operand result;
    result.kind = Operand::Kind::kAddress;
    if (peek().kind == Token::Kind::kWord) {
      const std::string_view name = word();
      result.reg = find_register(name);
      if (result.reg < 0) {
        if (name[0] == '%') fail("unknown register '" + std::string(name) + "'");
        result.name = name;
      }
      if (peek().is("+") || peek().is("-")) result.bits = integer();
    } else {
      result.bits = integer();
    }
    while (accept(",")) result.elements.push_back(operand());
    expect("]");
    return result;
  }

  ast::Module module_;
  ast::Function* function_ = nullptr;
  bool is_extern_ = false;  // the declaration being read
  std::vector<Scope> scopes_;
  int file_ = 0, source_line_ = 0;
  int depth_ = 0;
};

}  // namespace

ast::Module parse_ptx(std::string_view text) { return Parser(text).run(); }

}  // namespace gpk::sim
