// Guesses of what comes next in a text. A model checks many at the cost of one step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/kv_pages.h"

namespace gpk::llm {

using Tokens = std::vector<std::int32_t>;
// Alternative continuations of one text.
using Branches = std::vector<Tokens>;

class Drafter {
 public:
  struct Context {
    std::span<const std::int32_t> text;  // its last token is not in the cache yet
    const Sequence& sequence;            // of the model; has pages for `most` more tokens
    std::int64_t most = 0;               // tokens of a branch, 1 or more
  };

  virtual ~Drafter() = default;
  // No branches, or some with 1 to `most` tokens.
  virtual Branches draft(const Context& context) = 0;
  // What the model says: after[b][i] follows the text and i tokens of branches[b]. The text goes
  // on with after[kept][0 .. accepted].
  virtual void observe(const Branches& branches, const Branches& after, std::size_t kept,
                       std::size_t accepted);
};

}  // namespace gpk::llm
