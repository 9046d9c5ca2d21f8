// PTX text to tokens.
#pragma once

#include <string_view>
#include <vector>

namespace gpk::sim {

struct Token {
  enum class Kind : unsigned char { kEnd, kWord, kNumber, kString, kPunct };
  Kind kind = Kind::kEnd;
  int line = 0;
  std::string_view text;  // of a string: without its quotes, escapes as written

  bool is(std::string_view other) const { return kind != Kind::kString && text == other; }
};

// Words hold dots and "::", so an opcode with its modifiers is one token. The last token is kEnd.
// Throws PtxError.
std::vector<Token> lex(std::string_view text);

}  // namespace gpk::sim
