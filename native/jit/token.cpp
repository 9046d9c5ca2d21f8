#include "jit/token.h"

#include <algorithm>

namespace gpk::jit {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_ident_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_ident(char c) { return is_ident_start(c) || is_digit(c); }
bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

std::size_t end_of_identifier(std::string_view s, std::size_t at) {
  while (at < s.size() && is_ident(s[at])) ++at;
  return at;
}

// A digit separator (1'000) must not be mistaken for a character literal.
std::size_t end_of_number(std::string_view s, std::size_t at) {
  while (at < s.size()) {
    const bool separator = s[at] == '\'' && at + 1 < s.size() && is_ident(s[at + 1]);
    const bool sign = (s[at] == '+' || s[at] == '-') && (s[at - 1] == 'e' || s[at - 1] == 'E' ||
                                                         s[at - 1] == 'p' || s[at - 1] == 'P');
    if (!is_ident(s[at]) && s[at] != '.' && !separator && !sign) break;
    ++at;
  }
  return at;
}

// An unterminated literal ends at its line, as in #error text with an apostrophe.
std::size_t end_of_quoted(std::string_view s, std::size_t at) {
  const char quote = s[at++];
  while (at < s.size() && s[at] != quote && s[at] != '\n') at += s[at] == '\\' ? 2 : 1;
  if (at >= s.size()) return s.size();
  return s[at] == quote ? at + 1 : at;
}

std::size_t end_of_raw_string(std::string_view s, std::size_t quote) {
  const std::size_t open = s.find('(', quote);
  if (open == std::string_view::npos) return s.size();
  const std::string close = ")" + std::string(s.substr(quote + 1, open - quote - 1)) + "\"";
  const std::size_t at = s.find(close, open);
  return at == std::string_view::npos ? s.size() : at + close.size();
}

bool is_raw_prefix(std::string_view word) {
  return word == "R" || word == "LR" || word == "uR" || word == "UR" || word == "u8R";
}

// End of the identifier, number or literal that starts at `at`; `at` itself for anything else.
std::size_t end_of_word(std::string_view s, std::size_t at) {
  const char c = s[at];
  if (is_digit(c) || (c == '.' && at + 1 < s.size() && is_digit(s[at + 1]))) {
    return end_of_number(s, at);
  }
  if (c == '"' || c == '\'') return end_of_quoted(s, at);
  if (!is_ident_start(c)) return at;
  const std::size_t end = end_of_identifier(s, at);
  if (end < s.size() && s[end] == '"' && is_raw_prefix(s.substr(at, end - at))) {
    return end_of_raw_string(s, end);
  }
  return end;
}

std::size_t end_of_comment(std::string_view s, std::size_t at) {
  if (s.substr(at, 2) == "/*") {
    const std::size_t close = s.find("*/", at + 2);
    return close == std::string_view::npos ? s.size() : close + 2;
  }
  if (s.substr(at, 2) != "//") return at;
  while (at < s.size() && s[at] != '\n') at += s[at] == '\\' ? 2 : 1;
  return std::min(at, s.size());
}

std::size_t end_of_directive(std::string_view s, std::size_t at) {
  while (at < s.size() && s[at] != '\n') {
    const bool splice = s[at] == '\\';
    ++at;
    if (splice && at < s.size() && s[at] == '\r') ++at;
    if (splice && at < s.size() && s[at] == '\n') ++at;
  }
  return at;
}

TokenKind kind_of(std::string_view word) {
  if (word.back() == '"' || word.front() == '"' || word.front() == '\'') return TokenKind::kString;
  return is_ident_start(word.front()) ? TokenKind::kIdentifier : TokenKind::kNumber;
}

bool is_word(const Token& token) { return token.kind != TokenKind::kPunct; }

bool needs_space(const Token& left, const Token& right) {
  if (left.is(",")) return true;
  if (!is_word(right)) return false;
  return is_word(left) || left.is("*") || left.is("&") || left.is(">") || left.is("]");
}

}  // namespace

std::string blank_comments(std::string_view source) {
  std::string out(source);
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t comment_end = end_of_comment(source, at);
    if (comment_end != at) {
      for (; at < comment_end; ++at) {
        if (out[at] != '\n') out[at] = ' ';
      }
      continue;
    }
    at = std::max(end_of_word(source, at), at + 1);
  }
  return out;
}

Tokens tokenize(std::string_view source) {
  const std::string blanked = blank_comments(source);
  const std::string_view s = blanked;
  Tokens out;
  bool line_start = true;
  for (std::size_t at = 0; at < s.size();) {
    if (is_space(s[at]) || s[at] == '\\') {
      line_start = line_start || s[at] == '\n';
      ++at;
      continue;
    }
    if (s[at] == '#' && line_start) {
      at = end_of_directive(s, at);
      continue;
    }
    line_start = false;
    std::size_t end = end_of_word(s, at);
    if (end != at) {
      const std::string_view word = s.substr(at, end - at);
      out.push_back({kind_of(word), std::string(word)});
    } else {
      end = at + 1;
      if (s.substr(at, 2) == "::" || s.substr(at, 2) == "->") end = at + 2;
      if (s.substr(at, 3) == "...") end = at + 3;
      out.push_back({TokenKind::kPunct, std::string(s.substr(at, end - at))});
    }
    at = end;
  }
  return out;
}

std::string spell(const Tokens& tokens) {
  std::string out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && needs_space(tokens[i - 1], tokens[i])) out.push_back(' ');
    out += tokens[i].text;
  }
  return out;
}

}  // namespace gpk::jit
