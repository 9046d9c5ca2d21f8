// The built-in kernel sources, embedded at build time from native/kernels.
#pragma once

#include <string_view>
#include <vector>

namespace gpk::jit {

struct EmbeddedSource {
  std::string_view name;  // "elementwise/map.cuh", as #include'd
  std::string_view text;
  std::string_view sha256;  // of text, 64 hex characters
};

// Sorted by name. Defined in the generated kernel_sources.cpp.
const std::vector<EmbeddedSource>& embedded_sources();

// Throws InvalidArgument for an unknown name.
const EmbeddedSource& embedded_source(std::string_view name);

// `name` and its transitive includes, each once, sorted by name.
std::vector<const EmbeddedSource*> embedded_closure(std::string_view name);

}  // namespace gpk::jit
