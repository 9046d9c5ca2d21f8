// What followed the last tokens where they occurred before in the text. Costs nothing; good for
// code, quotes and summaries.
#pragma once

#include "llm/drafter.h"

namespace gpk::llm {

class NgramDrafter : public Drafter {
 public:
  // Looks for the last `longest` tokens, then for fewer. Throws InvalidArgument below 1.
  explicit NgramDrafter(std::int64_t longest);
  Branches draft(const Context& context) override;

 private:
  std::size_t longest_;
};

}  // namespace gpk::llm
