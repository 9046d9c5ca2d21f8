#include "jit/sources.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "jit/include_scan.h"

namespace gpk::jit {
namespace {

const EmbeddedSource* lookup(std::string_view name) {
  const std::vector<EmbeddedSource>& all = embedded_sources();
  const auto it = std::lower_bound(
      all.begin(), all.end(), name,
      [](const EmbeddedSource& source, std::string_view wanted) { return source.name < wanted; });
  return it != all.end() && it->name == name ? &*it : nullptr;
}

using Found = std::map<std::string_view, const EmbeddedSource*>;

void add_closure(const EmbeddedSource& source, Found& found) {
  if (!found.emplace(source.name, &source).second) return;
  for (const IncludeLine& line : scan_includes(source.text)) {
    const EmbeddedSource* next = lookup(line.name);
    if (next == nullptr) {
      throw InvalidArgument(cat("jit: ", source.name, " includes \"", line.name,
                                "\", which is not an embedded kernel source"));
    }
    add_closure(*next, found);
  }
}

}  // namespace

const EmbeddedSource& embedded_source(std::string_view name) {
  const EmbeddedSource* source = lookup(name);
  if (source == nullptr) {
    throw InvalidArgument(cat("jit: there is no embedded kernel source \"", name, "\""));
  }
  return *source;
}

std::vector<const EmbeddedSource*> embedded_closure(std::string_view name) {
  Found found;
  add_closure(embedded_source(name), found);
  std::vector<const EmbeddedSource*> out;
  for (const auto& [key, source] : found) out.push_back(source);
  return out;
}

}  // namespace gpk::jit
