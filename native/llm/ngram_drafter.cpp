#include "llm/ngram_drafter.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace gpk::llm {

NgramDrafter::NgramDrafter(std::int64_t longest) : longest_(static_cast<std::size_t>(longest)) {
  if (longest < 1)
    throw InvalidArgument(cat("ngram: longest is ", longest, ", expected 1 or more"));
}

Branches NgramDrafter::draft(const Context& context) {
  const std::span<const std::int32_t> text = context.text;
  for (std::size_t n = std::min(longest_, text.size() - 1); n > 0; --n) {
    const auto last = text.last(n);
    // The newest occurrence that something follows.
    for (std::size_t at = text.size() - n; at-- > 0;) {
      if (!std::equal(last.begin(), last.end(), text.begin() + static_cast<std::ptrdiff_t>(at)))
        continue;
      const auto next = text.subspan(at + n);
      const auto count = std::min(next.size(), static_cast<std::size_t>(context.most));
      return {Tokens(next.begin(), next.begin() + static_cast<std::ptrdiff_t>(count))};
    }
  }
  return {};
}

}  // namespace gpk::llm
