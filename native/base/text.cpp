#include "base/text.h"

#include <algorithm>
#include <array>
#include <limits>

namespace gpk::inline base {

std::string fixed_text(double value, int num_decimals) {
  char digits[400];  // the longest double in fixed form has 309 digits before the point
  const auto end =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, num_decimals);
  return end.ec == std::errc() ? std::string(digits, end.ptr) : std::string("?");
}

std::string bytes_text(std::size_t bytes) {
  if (bytes == std::numeric_limits<std::size_t>::max()) return "unlimited";
  static constexpr std::array<const char*, 5> kUnits = {" KiB", " MiB", " GiB", " TiB", " PiB"};
  if (bytes < 1024) return cat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fixed_text(value, 2) + kUnits[unit];
}

std::string duration_text(std::int64_t ns) {
  const auto value = static_cast<double>(ns);
  const double size = value < 0 ? -value : value;
  if (size < 1e3) return cat(ns, " ns");
  if (size < 1e6) return fixed_text(value / 1e3, 2) + " us";
  if (size < 1e9) return fixed_text(value / 1e6, 2) + " ms";
  return fixed_text(value / 1e9, 2) + " s";
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    out += line;
    out += '\n';
  }
  return out;
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace gpk::inline base
