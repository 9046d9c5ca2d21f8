// Tokens of a PTX text, taken one by one, and the numbers among them. Errors are PtxErrors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/lexer.h"

namespace gpk::sim {

class TokenStream {
 public:
  struct Number {
    bool is_float = false;
    std::uint64_t bits = 0;  // of a double
  };

  explicit TokenStream(std::string_view text) : tokens_(lex(text)) {}

  const Token& peek(std::size_t ahead = 0) const;
  bool at_end() const { return peek().kind == Token::Kind::kEnd; }
  const Token& take();
  bool accept(std::string_view text);
  void expect(std::string_view text);
  [[noreturn]] void fail(const std::string& what) const;

  std::string_view word();
  std::string_view directive_word();  // without its dot
  void skip_line();
  void skip_braces();

  Number number();  // with any signs before it
  std::uint64_t integer();

 private:
  Number literal(std::string_view view) const;

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace gpk::sim
