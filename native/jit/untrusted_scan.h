// Every #include that a compiler could find in a text that tries to hide one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/include_scan.h"

namespace gpk::jit {

struct UntrustedScan {
  std::vector<IncludeLine> includes;
  std::string refused;  // a construct that cannot be judged, such as "#include MACRO"; empty: none
};

// Any "#" counts as the start of a directive, in comments and strings too, so nothing that affects
// where those end (raw strings, --std, old line ends) can hide one. Only #include with a plain
// header name passes; trigraphs, __has_include, #embed, #import, #include_next and header units are
// refused.
UntrustedScan scan_untrusted(std::string_view text);

}  // namespace gpk::jit
