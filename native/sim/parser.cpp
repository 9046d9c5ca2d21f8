#include "sim/parser.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "sim/lexer.h"
#include "sim/module.h"

namespace gpk::sim {
namespace {

using ast::Operand;
using ast::Variable;

constexpr std::size_t kMaxVariableBytes = std::size_t{1} << 32;
constexpr std::size_t kMaxRegisters = 1 << 20;

struct Number {
  bool is_float = false;
  std::uint64_t bits = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(lex(text)) {}

  ast::Module run() {
    while (!at_end()) directive();
    return std::move(module_);
  }

 private:
  // --- tokens ---
  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool at_end() const { return peek().kind == Token::Kind::kEnd; }
  const Token& take() {
    const Token& token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool accept(std::string_view text) {
    if (!peek().is(text)) return false;
    take();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) fail("expected '" + std::string(text) + "'");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw PtxError(peek().line, what + " before '" + std::string(peek().text.substr(0, 60)) + "'");
  }
  std::string_view word() {
    if (peek().kind != Token::Kind::kWord) fail("expected a name");
    return take().text;
  }
  std::string_view directive_word() {
    const std::string_view text = word();
    if (text.size() < 2 || text[0] != '.') fail("expected a directive");
    return text.substr(1);
  }
  void skip_line() {
    const int line = peek().line;
    while (!at_end() && peek().line == line) take();
  }
  void skip_braces() {
    expect("{");
    for (int depth = 1; depth > 0;) {
      if (at_end()) fail("expected '}'");
      const Token& token = take();
      if (token.is("{")) ++depth;
      if (token.is("}")) --depth;
    }
  }

  Number number() {
    bool negative = false;
    bool inverted = false;
    for (;;) {
      if (accept("-"))
        negative = !negative;
      else if (accept("~"))
        inverted = !inverted;
      else if (!accept("+"))
        break;
    }
    if (peek().kind != Token::Kind::kNumber) fail("expected a number");
    Number result = literal(take().text);
    if (negative) {
      if (result.is_float)
        result.bits ^= std::uint64_t{1} << 63;
      else
        result.bits = ~result.bits + 1;
    }
    if (inverted) result.bits = ~result.bits;
    return result;
  }
  Number literal(std::string_view view) const {
    std::string text(view);
    const auto bad = [&]() -> Number { fail("'" + text + "' is no number"); };
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F')) {
      if (text.size() != 10) return bad();
      const auto bits = static_cast<std::uint32_t>(std::strtoul(text.c_str() + 2, nullptr, 16));
      // A float's NaN payload is kept: widened by hand, not by conversion.
      return {true, widen(bits)};
    }
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'd' || text[1] == 'D')) {
      if (text.size() != 18) return bad();
      return {true, std::strtoull(text.c_str() + 2, nullptr, 16)};
    }
    const bool hex = text.size() > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    if (!hex && text.find_first_of(".eE") != std::string::npos) {
      char* end = nullptr;
      const double value = std::strtod(text.c_str(), &end);
      if (*end != '\0') return bad();
      return {true, std::bit_cast<std::uint64_t>(value)};
    }
    if (!text.empty() && (text.back() == 'U' || text.back() == 'u')) text.pop_back();
    char* end = nullptr;
    std::uint64_t value = 0;
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B'))
      value = std::strtoull(text.c_str() + 2, &end, 2);
    else
      value = std::strtoull(text.c_str(), &end, 0);
    if (end == nullptr || *end != '\0') return bad();
    return {false, value};
  }
  static std::uint64_t widen(std::uint32_t bits) {
    const std::uint32_t exponent = bits >> 23 & 0xff;
    if (exponent != 0xff)
      return std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(bits)));
    return std::uint64_t{bits >> 31} << 63 | std::uint64_t{0x7ff} << 52 |
           std::uint64_t{bits & 0x7fffff} << 29;
  }
  std::uint64_t integer() {
    const Number value = number();
    if (value.is_float) fail("expected an integer");
    return value.bits;
  }

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
    linkage_ = {};
    for (std::string_view word_now = name;;) {
      if (word_now == "extern")
        linkage_.is_extern = true;
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

  // After the space: [.attribute] [.align n] [.vN] .type [.ptr ...] name [dims] [= init], ...
  struct Shape {
    std::size_t align = 0;
    unsigned vector = 1;
    Type type = Type::kNone;
  };
  Shape variable_shape() {
    Shape shape;
    for (;;) {
      const std::string_view name = peek().text;
      if (peek().kind != Token::Kind::kWord || name.empty() || name[0] != '.') break;
      const std::string_view text = name.substr(1);
      if (text == "align") {
        take();
        const std::uint64_t align = integer();
        if (align == 0 || (align & (align - 1)) != 0 || align > 4096) fail("bad alignment");
        // Of a pointer parameter: what it points to.
        if (shape.type == Type::kNone) shape.align = align;
      } else if (text == "v2" || text == "v4" || text == "v8") {
        take();
        shape.vector = static_cast<unsigned>(text[1] - '0');
      } else if (text == "attribute") {
        take();
        expect("(");
        while (!accept(")")) {
          if (at_end()) fail("expected ')'");
          take();
        }
      } else if (text == "ptr" || text == "global" || text == "const" || text == "shared" ||
                 text == "local") {
        take();
      } else if (const Type type = type_named(text); type != Type::kNone) {
        take();
        shape.type = type;
      } else {
        break;
      }
    }
    if (shape.type == Type::kNone || shape.type == Type::kPred) fail("expected a type");
    return shape;
  }

  Variable variable_named(Variable::Space space, const Shape& shape) {
    Variable variable;
    variable.space = space;
    variable.line = peek().line;
    variable.name = word();
    variable.is_extern = linkage_.is_extern;
    const std::size_t element = bytes_of(shape.type) * shape.vector;
    std::size_t count = 1;
    bool unsized = false;
    while (accept("[")) {
      if (accept("]")) {
        unsized = true;
        continue;
      }
      const std::uint64_t extent = integer();
      if (extent > kMaxVariableBytes) fail("array too large");
      count *= extent;
      if (count * element > kMaxVariableBytes) fail("array too large");
      expect("]");
    }
    variable.bytes = unsized ? 0 : count * element;
    variable.align = std::max<std::size_t>(shape.align, shape.align != 0 ? 1 : element);
    if (accept("=")) {
      initializer(variable, shape.type);
      if (unsized) variable.bytes = variable.init.size();
      if (variable.init.size() > variable.bytes) fail("too many initialisers");
      variable.init.resize(variable.bytes);
    }
    return variable;
  }

  void variables(Variable::Space space, std::vector<Variable>& out, int scope) {
    const Shape shape = variable_shape();
    do {
      out.push_back(variable_named(space, shape));
      out.back().scope = scope;
    } while (accept(","));
    expect(";");
  }

  void append(Variable& variable, std::uint64_t bits, unsigned bytes) {
    if (variable.init.size() > kMaxVariableBytes) fail("array too large");
    for (unsigned i = 0; i < bytes; ++i)
      variable.init.push_back(static_cast<std::byte>(bits >> (8 * std::min(i, 7u))));
  }

  void initializer(Variable& variable, Type type) {
    if (accept("{")) {
      if (accept("}")) return;
      do {
        if (peek().is("}")) break;
        initializer(variable, type);
      } while (accept(","));
      expect("}");
      return;
    }
    const unsigned bytes = bytes_of(type);
    if (peek().kind == Token::Kind::kWord ||
        (peek().kind == Token::Kind::kNumber && peek(1).is("("))) {
      Variable::Address address{variable.init.size(), {}, 0, bytes, 0};
      if (peek().kind == Token::Kind::kNumber) {  // 0xFF00(symbol): a byte of its address
        const std::uint64_t mask = integer();
        if (mask == 0) fail("expected a mask");
        address.shift = static_cast<unsigned>(std::countr_zero(mask));
        expect("(");
        symbol_address(address);
        expect(")");
      } else {
        symbol_address(address);
      }
      variable.addresses.push_back(address);
      append(variable, 0, bytes);
      return;
    }
    Number value = number();
    if (type == Type::kF32) {
      const double wide = std::bit_cast<double>(value.is_float ? value.bits : 0);
      value.bits =
          value.is_float ? std::bit_cast<std::uint32_t>(static_cast<float>(wide)) : value.bits;
    }
    append(variable, value.bits, bytes);
  }

  void symbol_address(Variable::Address& address) {
    std::string_view name = word();
    const bool generic = name == "generic" && accept("(");
    if (generic) name = word();
    address.symbol = name;
    if (generic && peek().is("+")) address.offset = integer();
    if (generic) expect(")");
    if (peek().is("+") || peek().is("-")) address.offset += integer();
  }

  // --- functions ---
  struct Linkage {
    bool is_extern = false;
  };
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
    linkage_ = {};
    do {
      const std::string_view kind = directive_word();
      if (kind == "reg") fail("unsupported register parameter");
      if (kind != "param") fail("expected .param");
      const Shape shape = variable_shape();
      result.push_back(variable_named(Variable::Space::kParam, shape));
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
      linkage_ = {};
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

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  ast::Module module_;
  ast::Function* function_ = nullptr;
  Linkage linkage_;
  std::vector<Scope> scopes_;
  int file_ = 0, source_line_ = 0;
  int depth_ = 0;
};

}  // namespace

ast::Module parse_ptx(std::string_view text) { return Parser(text).run(); }

}  // namespace gpk::sim
