#include "sim/parse_variable.h"

#include <algorithm>
#include <bit>

namespace gpk::sim {
namespace {

using ast::Variable;

constexpr std::size_t kMaxVariableBytes = std::size_t{1} << 32;
constexpr std::size_t kMaxInitialisedBytes = std::size_t{1} << 28;
constexpr int kMaxNesting = 16;

void symbol_address(TokenStream& in, Variable::Address& address) {
  std::string_view name = in.word();
  const bool generic = name == "generic" && in.accept("(");
  if (generic) name = in.word();
  address.symbol = name;
  if (generic && in.peek().is("+")) address.offset = in.integer();
  if (generic) in.expect(")");
  if (in.peek().is("+") || in.peek().is("-")) address.offset += in.integer();
}

void append(TokenStream& in, Variable& variable, std::uint64_t bits, unsigned bytes) {
  if (variable.init.size() > kMaxInitialisedBytes) in.fail("initialised array too large");
  for (unsigned i = 0; i < bytes; ++i)
    variable.init.push_back(static_cast<std::byte>(bits >> (8 * std::min(i, 7u))));
}

void initializer(TokenStream& in, Variable& variable, Type type, int depth) {
  if (depth > kMaxNesting) in.fail("nested too deeply");
  if (in.accept("{")) {
    if (in.accept("}")) return;
    do {
      if (in.peek().is("}")) break;
      initializer(in, variable, type, depth + 1);
    } while (in.accept(","));
    in.expect("}");
    return;
  }
  const unsigned bytes = bytes_of(type);
  if (in.peek().kind == Token::Kind::kWord ||
      (in.peek().kind == Token::Kind::kNumber && in.peek(1).is("("))) {
    Variable::Address address{variable.init.size(), {}, 0, bytes, 0};
    if (in.peek().kind == Token::Kind::kNumber) {  // 0xFF00(symbol): a byte of its address
      const std::uint64_t mask = in.integer();
      if (mask == 0) in.fail("expected a mask");
      address.shift = static_cast<unsigned>(std::countr_zero(mask));
      in.expect("(");
      symbol_address(in, address);
      in.expect(")");
    } else {
      symbol_address(in, address);
    }
    variable.addresses.push_back(address);
    append(in, variable, 0, bytes);
    return;
  }
  TokenStream::Number value = in.number();
  if (type == Type::kF32) {
    const double wide = std::bit_cast<double>(value.is_float ? value.bits : 0);
    value.bits =
        value.is_float ? std::bit_cast<std::uint32_t>(static_cast<float>(wide)) : value.bits;
  }
  append(in, variable, value.bits, bytes);
}

}  // namespace

VariableShape parse_shape(TokenStream& in) {
  VariableShape shape;
  for (;;) {
    const std::string_view name = in.peek().text;
    if (in.peek().kind != Token::Kind::kWord || name.empty() || name[0] != '.') break;
    const std::string_view text = name.substr(1);
    if (text == "align") {
      in.take();
      const std::uint64_t align = in.integer();
      if (align == 0 || (align & (align - 1)) != 0 || align > 4096) in.fail("bad alignment");
      // Of a pointer parameter: what it points to.
      if (shape.type == Type::kNone) shape.align = align;
    } else if (text == "v2" || text == "v4" || text == "v8") {
      in.take();
      shape.vector = static_cast<unsigned>(text[1] - '0');
    } else if (text == "attribute") {
      in.take();
      in.expect("(");
      while (!in.accept(")")) {
        if (in.at_end()) in.fail("expected ')'");
        in.take();
      }
    } else if (text == "ptr" || text == "global" || text == "const" || text == "shared" ||
               text == "local") {
      in.take();
    } else if (const Type type = type_named(text); type != Type::kNone) {
      in.take();
      shape.type = type;
    } else {
      break;
    }
  }
  if (shape.type == Type::kNone || shape.type == Type::kPred) in.fail("expected a type");
  return shape;
}

Variable parse_variable(TokenStream& in, Variable::Space space, const VariableShape& shape) {
  Variable variable;
  variable.space = space;
  variable.line = in.peek().line;
  variable.name = in.word();
  const std::size_t element = bytes_of(shape.type) * shape.vector;
  std::size_t count = 1;
  bool unsized = false;
  while (in.accept("[")) {
    if (in.accept("]")) {
      unsized = true;
      continue;
    }
    const std::uint64_t extent = in.integer();
    if (extent != 0 && count > kMaxVariableBytes / element / extent) in.fail("array too large");
    count *= extent;
    in.expect("]");
  }
  variable.bytes = unsized ? 0 : count * element;
  variable.align = std::max<std::size_t>(shape.align, shape.align != 0 ? 1 : element);
  if (in.accept("=")) {
    if (variable.bytes > kMaxInitialisedBytes) in.fail("initialised array too large");
    initializer(in, variable, shape.type, 0);
    if (unsized) variable.bytes = variable.init.size();
    if (variable.init.size() > variable.bytes) in.fail("too many initialisers");
    variable.init.resize(variable.bytes);
  }
  return variable;
}

}  // namespace gpk::sim
