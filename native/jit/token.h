// CUDA C source as tokens: just enough of the language to find declarations and includes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpk::jit {

enum class TokenKind { kIdentifier, kNumber, kString, kPunct };

struct Token {
  TokenKind kind = TokenKind::kPunct;
  std::string text;
  [[nodiscard]] bool is(std::string_view what) const noexcept { return text == what; }
};

using Tokens = std::vector<Token>;

// The same text with every comment replaced by spaces (line breaks kept). Strings, raw strings and
// character literals are unchanged; an unterminated comment or string runs to the end.
std::string blank_comments(std::string_view source);

// Comments and preprocessor lines are skipped. "::", "->" and "..." are one token each, every
// other punctuation character is one.
Tokens tokenize(std::string_view source);

// White space normalised as in conventional type spelling: "const float* __restrict__", "Box<int,
// 4>".
std::string spell(const Tokens& tokens);

}  // namespace gpk::jit
