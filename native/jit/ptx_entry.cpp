#include "jit/ptx_entry.h"

#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace gpk::jit {

namespace {

// One past the brace that closes the first one from `at` on; npos when unclosed. Braces also
// delimit vectors and scopes of inline assembly.
std::size_t end_of_body(std::string_view ptx, std::size_t at) {
  int depth = 0;
  for (; at < ptx.size(); ++at) {
    switch (ptx[at]) {
      case '{': ++depth; break;
      case '}':
        if (--depth <= 0) return at + 1;
        break;
      case '"': at = ptx.find('"', at + 1); break;
      case '/':
        if (ptx.substr(at, 2) == "//") at = ptx.find('\n', at);
        break;
      default: break;
    }
    if (at == std::string_view::npos) break;
  }
  return std::string_view::npos;
}

}  // namespace

std::string keep_entry(const std::string& ptx, const std::string& symbol) {
  // NVRTC emits ".visible .entry name(" or ".weak .entry name(" at the start of a line.
  constexpr std::string_view kEntry = " .entry ";
  std::string kept;
  bool found = false;
  std::size_t at = 0;
  for (;;) {
    const std::size_t entry = ptx.find(kEntry, at);
    if (entry == std::string::npos) break;
    const std::size_t name = entry + kEntry.size();
    const std::size_t start = ptx.rfind('\n', entry);
    const std::size_t end = end_of_body(ptx, entry);
    if (start == std::string::npos || end == std::string::npos)
      throw Error("keep_entry: malformed PTX: a kernel without beginning or end");
    const bool wanted =
        ptx.compare(name, symbol.size(), symbol) == 0 && ptx[name + symbol.size()] == '(';
    kept.append(ptx, at, (wanted ? end : start) - at);
    found = found || wanted;
    at = end;
  }
  if (!found) throw Error(cat("keep_entry: there is no kernel ", symbol));
  return kept.append(ptx, at, std::string::npos);
}

}  // namespace gpk::jit
