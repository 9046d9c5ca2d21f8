#include "jit/ptx_entry.h"

#include <string_view>

#include "core/error.h"
#include "core/text.h"

namespace gpk::jit {

std::string keep_entry(const std::string& ptx, const std::string& symbol) {
  // NVRTC starts a kernel at the beginning of a line and ends it with a brace on a line of its own.
  constexpr std::string_view kStart = "\n.visible .entry ";
  constexpr std::string_view kEnd = "\n}\n";
  std::string kept;
  bool found = false;
  std::size_t at = 0;
  while (at < ptx.size()) {
    const std::size_t start = ptx.find(kStart, at);
    if (start == std::string::npos) break;
    const std::size_t name = start + kStart.size();
    const std::size_t end = ptx.find(kEnd, start);
    if (end == std::string::npos) throw Error("keep_entry: a kernel has no end");
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
