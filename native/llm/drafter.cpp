#include "llm/drafter.h"

namespace gpk::llm {

void Drafter::observe(const Branches& /*branches*/, const Branches& /*after*/, std::size_t /*kept*/,
                      std::size_t /*accepted*/) {}

}  // namespace gpk::llm
