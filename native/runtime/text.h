// Text for errors, reasons and tables. Cold paths only.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpk::runtime {

inline void append_phrase(std::string& out, std::string_view s) { out.append(s); }
inline void append_phrase(std::string& out, const char* s) { out.append(s); }
inline void append_phrase(std::string& out, const std::string& s) { out.append(s); }

template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>)
void append_phrase(std::string& out, T value) {
  char digits[64];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// phrase("task ", 3, " waits") == "task 3 waits".
template <class... Parts>
std::string phrase(const Parts&... parts) {
  std::string out;
  (append_phrase(out, parts), ...);
  return out;
}

// With a fixed number of decimals: fixed_text(0.5, 2) == "0.50".
std::string fixed_text(double value, int num_decimals);
// "512 B", "1.50 GiB"; "unlimited" for the largest value of the type.
std::string bytes_text(std::size_t bytes);
// "900 ns", "1.50 ms", "2.00 s".
std::string duration_text(std::int64_t ns);
// What it says of itself.
std::string message_of(const std::exception_ptr& error);

// Columns as wide as their widest cell; the first row is the head.
class TextTable {
 public:
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace gpk::runtime
