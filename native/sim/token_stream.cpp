#include "sim/token_stream.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "sim/module.h"

namespace gpk::sim {
namespace {

// To a double. A NaN's payload is kept: by hand, not by conversion.
std::uint64_t widen(std::uint32_t bits) {
  const std::uint32_t exponent = bits >> 23 & 0xff;
  if (exponent != 0xff)
    return std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(bits)));
  return std::uint64_t{bits >> 31} << 63 | std::uint64_t{0x7ff} << 52 |
         std::uint64_t{bits & 0x7fffff} << 29;
}

}  // namespace

const Token& TokenStream::peek(std::size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

const Token& TokenStream::take() {
  const Token& token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::accept(std::string_view text) {
  if (!peek().is(text)) return false;
  take();
  return true;
}

void TokenStream::expect(std::string_view text) {
  if (!accept(text)) fail("expected '" + std::string(text) + "'");
}

void TokenStream::fail(const std::string& what) const {
  throw PtxError(peek().line, what + " before '" + std::string(peek().text.substr(0, 60)) + "'");
}

std::string_view TokenStream::word() {
  if (peek().kind != Token::Kind::kWord) fail("expected a name");
  return take().text;
}

std::string_view TokenStream::directive_word() {
  const std::string_view text = peek().text;
  if (peek().kind != Token::Kind::kWord || text.size() < 2 || text[0] != '.')
    fail("expected a directive");
  if (const std::size_t end = text.find('.', 1); end != text.npos) {
    tokens_[at_].text = text.substr(end);  // ".reg.b32" is two of them
    return text.substr(1, end - 1);
  }
  take();
  return text.substr(1);
}

void TokenStream::skip_line() {
  const int line = peek().line;
  while (!at_end() && peek().line == line) take();
}

void TokenStream::skip_braces() {
  expect("{");
  for (int depth = 1; depth > 0;) {
    if (at_end()) fail("expected '}'");
    const Token& token = take();
    if (token.is("{")) ++depth;
    if (token.is("}")) --depth;
  }
}

TokenStream::Number TokenStream::number() {
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

TokenStream::Number TokenStream::literal(std::string_view view) const {
  std::string text(view);
  const auto bad = [&]() -> Number { fail("'" + text + "' is no number"); };
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F')) {
    if (text.size() != 10) return bad();
    const auto bits = static_cast<std::uint32_t>(std::strtoul(text.c_str() + 2, nullptr, 16));
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

std::uint64_t TokenStream::integer() {
  const Number value = number();
  if (value.is_float) fail("expected an integer");
  return value.bits;
}

}  // namespace gpk::sim
