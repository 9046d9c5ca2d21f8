#include "jit/untrusted_scan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace gpk::jit {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::size_t kMaxShown = 80;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$';
}
// Could be a spelling we do not parse: \u0069nclude, or a blank outside ASCII.
bool is_strange(char c) { return static_cast<unsigned char>(c) >= 0x80 || c == '\\'; }

// Removes line continuations; false where compilers disagree on what ends a line.
bool join_lines(std::string_view text, std::string& out) {
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\n';
    if (text[i] == '\r' && next != '\n') return false;
    if (text[i] != '\\') {
      out.push_back(text[i]);
      continue;
    }
    std::size_t end = i + 1;
    while (end < text.size() && is_blank(text[end])) ++end;
    const bool line_end = end < text.size() && text[end] == '\n';
    if (!line_end) {
      out.push_back(text[i]);
    } else if (end == i + 1 || text.substr(i + 1, end - i - 1) == "\r") {
      i = end;
    } else {
      return false;
    }
  }
  return true;
}

bool has_trigraph(std::string_view text) {
  for (std::size_t at = text.find("??"); at != kNone; at = text.find("??", at + 1)) {
    if (at + 2 < text.size() && std::string_view("=/'()!<>-").find(text[at + 2]) != kNone)
      return true;
  }
  return false;
}

// Blanks and comments; stops at a line end.
std::size_t skip_blanks(std::string_view text, std::size_t at) {
  for (;;) {
    while (at < text.size() && is_blank(text[at])) ++at;
    if (text.substr(at, 2) != "/*") return at;
    const std::size_t end = text.find("*/", at + 2);
    if (end == kNone) return text.size();
    at = end + 2;
  }
}

std::string_view word_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_word(text[end])) ++end;
  return text.substr(at, end - at);
}

std::string line_at(std::string_view text, std::size_t at) {
  const std::size_t end = std::min(text.find('\n', at), text.size());
  return shorten(trim(text.substr(at, end - at)), kMaxShown);
}

// The header name at `at`; false for anything else.
bool read_name(std::string_view text, std::size_t at, IncludeLine& out) {
  if (at >= text.size() || (text[at] != '"' && text[at] != '<')) return false;
  out.quoted = text[at] == '"';
  const std::size_t end = text.find(out.quoted ? '"' : '>', at + 1);
  if (end == kNone) return false;
  out.name = text.substr(at + 1, end - at - 1);
  return !out.name.empty() && out.name.find_first_of("\n\r\\") == std::string::npos;
}

// Parses a directive whose "#" ends before `at`; false where it must be refused.
bool read_directive(std::string_view text, std::size_t at, std::vector<IncludeLine>& out) {
  at = skip_blanks(text, at);
  if (at < text.size() && is_strange(text[at])) {
    // "#\n" in a string is common, and not a directive.
    return text[at] == '\\' && at + 1 < text.size() && text[at + 1] != 'u' && text[at + 1] != 'U';
  }
  const std::string_view word = word_at(text, at);
  at += word.size();
  if (at < text.size() && !word.empty() && is_strange(text[at])) return false;
  if (word == "embed" || word == "import" || word == "include_next") return false;
  if (word != "include") return true;
  IncludeLine line;
  if (!read_name(text, skip_blanks(text, at), line)) return false;
  out.push_back(std::move(line));
  return true;
}

// import "x"; import <x>; import MACRO;
bool is_header_unit(std::string_view text, std::size_t at) {
  constexpr std::string_view kImport = "import";
  if (at > 0 && is_word(text[at - 1])) return false;
  at += kImport.size();
  if (at < text.size() && is_word(text[at])) return false;
  at = skip_blanks(text, at);
  if (at >= text.size()) return false;
  if (text[at] == '"' || text[at] == '<') return true;
  const std::string_view word = word_at(text, at);
  if (word.empty()) return false;
  at = skip_blanks(text, at + word.size());
  return at < text.size() && text[at] == ';';
}

}  // namespace

UntrustedScan scan_untrusted(std::string_view text) {
  UntrustedScan out;
  std::string joined;
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    out.refused = "UTF-16";  // NVRTC honours the byte order mark
    return out;
  }
  if (!join_lines(text, joined)) {
    out.refused = "a carriage return inside a line, or blanks between a backslash and the line end";
    return out;
  }
  if (has_trigraph(text) || has_trigraph(joined)) {
    out.refused = "a trigraph";
    return out;
  }
  for (const std::string_view word : {"__has_include", "__has_embed"}) {
    if (joined.find(word) == std::string::npos) continue;
    out.refused = word;
    return out;
  }
  const std::string_view view = joined;
  for (std::size_t i = 0; i < view.size(); ++i) {
    const bool digraph = view.substr(i, 2) == "%:";
    const bool ok = view[i] == '#' || digraph
                        ? read_directive(view, i + (digraph ? 2 : 1), out.includes)
                        : !(view.substr(i, 6) == "import" && is_header_unit(view, i));
    if (!ok) {
      out.refused = line_at(view, i);
      return out;
    }
  }
  return out;
}

}  // namespace gpk::jit
