// Small text helpers. Used on cold paths only (errors, reports, cache keys).
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpk::inline base {

inline void append_text(std::string& out, std::string_view s) { out.append(s); }
inline void append_text(std::string& out, const char* s) { out.append(s); }
inline void append_text(std::string& out, const std::string& s) { out.append(s); }
inline void append_text(std::string& out, char c) { out.push_back(c); }
inline void append_text(std::string& out, bool b) { out.append(b ? "true" : "false"); }

template <class T>
  requires(std::is_arithmetic_v<T>)
void append_text(std::string& out, T value) {
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

// cat("add: got ", 3, " arguments") == "add: got 3 arguments".
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (append_text(out, parts), ...);
  return out;
}

// join({"a", "b"}, ", ") == "a, b".
template <class Range>
std::string join(const Range& items, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out.append(separator);
    append_text(out, item);
    first = false;
  }
  return out;
}

inline std::string_view trim(std::string_view s) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

// `text` itself up to `max_bytes`, else truncated at a UTF-8 boundary with the number of bytes cut.
inline std::string shorten(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  std::size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return cat(text.substr(0, end), "... (", text.size() - end, " more bytes)");
}

// With a fixed number of decimals: fixed_text(0.5, 2) == "0.50".
std::string fixed_text(double value, int num_decimals);
// "512 B", "1.50 GiB"; "unlimited" for the largest value of the type.
std::string bytes_text(std::size_t bytes);
// "900 ns", "1.50 ms", "2.00 s".
std::string duration_text(std::int64_t ns);
// The exception's what().
std::string message_of(const std::exception_ptr& error);

// Columns as wide as their widest cell; the first row is the header.
class TextTable {
 public:
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace gpk::inline base
