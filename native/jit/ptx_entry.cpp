#include "jit/ptx_entry.h"

#include <string_view>

#include "core/error.h"
#include "core/text.h"

namespace gpk::jit {

std::string keep_entry(const std::string& ptx, const std::string& symbol) {
  // NVRTC writes ".visible .entry name(" or ".weak .entry name(" at the beginning of a line, and
  // ends a kernel with a brace on a line of its own.
  constexpr std::string_view kEntry = " .entry ";
  constexpr std::string_view kEnd = "\n}\n";
  std::string kept;
  bool found = false;
  std::size_t at = 0;
  for (;;) {
    const std::size_t entry = ptx.find(kEntry, at);
    if (entry == std::string::npos) break;
    const std::size_t name = entry + kEntry.size();
    const std::size_t start = ptx.rfind('\n', entry);
    const std::size_t end = ptx.find(kEnd, entry);
    if (start == std::string::npos || end == std::string::npos)
      throw Error("keep_entry: a kernel without beginning or end");
    const bool wanted =
        ptx.compare(name, symbol.size(), symbol) == 0 && ptx[name + symbol.size()] == '(';
    const std::size_t next = end + kEnd.size() - 1;  // the line break belongs to what follows
    kept.append(ptx, at, (wanted ? next : start) - at);
    found = found || wanted;
    at = next;
  }
  if (!found) throw Error(cat("keep_entry: there is no kernel ", symbol));
  return kept.append(ptx, at, std::string::npos);
}

}  // namespace gpk::jit
