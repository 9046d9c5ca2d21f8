// Just enough of PTX to know the entries of an image and the sizes of their parameters.
#include <cctype>
#include <cstdlib>

#include "fake_driver/fake_state.h"

namespace fake {
namespace {

// Bytes of one declaration: ".param .align 8 .b8 name[24]", ".param .u64 .ptr .align 1 name".
std::size_t declaration_bytes(const std::string& text) {
  std::size_t bytes = 0;
  for (std::size_t at = text.find('.'); at != std::string::npos; at = text.find('.', at + 1)) {
    const char kind = text[at + 1];
    const char* digits = text.c_str() + at + 2;
    const bool sized = kind == 'u' || kind == 's' || kind == 'b' || kind == 'f';
    if (sized && std::isdigit(static_cast<unsigned char>(*digits)) != 0)
      bytes = std::strtoul(digits, nullptr, 10) / 8;
  }
  const std::size_t bracket = text.find('[');
  if (bracket != std::string::npos) bytes *= std::strtoul(text.c_str() + bracket + 1, nullptr, 10);
  return bytes;
}

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

}  // namespace

bool has_ptx_entries(const std::string& text) { return text.find(".entry") != std::string::npos; }

std::optional<std::vector<std::size_t>> ptx_param_sizes(const std::string& text,
                                                        const std::string& name) {
  for (std::size_t at = text.find(".entry"); at != std::string::npos;
       at = text.find(".entry", at + 1)) {
    const std::size_t begin = text.find_first_not_of(" \t\n", at + 6);
    std::size_t end = begin;
    while (end < text.size() && is_name_char(text[end])) ++end;
    if (begin == std::string::npos || text.substr(begin, end - begin) != name) continue;
    std::vector<std::size_t> sizes;
    const std::size_t open = text.find_first_not_of(" \t\n", end);
    if (open == std::string::npos || text[open] != '(') return sizes;
    const std::size_t close = text.find(')', open);
    std::size_t from = text.find(".param", open);
    while (from < close) {
      const std::size_t comma = std::min(text.find(',', from), close);
      sizes.push_back(declaration_bytes(text.substr(from, comma - from)));
      from = text.find(".param", comma);
    }
    return sizes;
  }
  return std::nullopt;
}

}  // namespace fake
