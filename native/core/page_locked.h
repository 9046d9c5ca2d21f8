// Page-locked host memory: the GPU's copy engines reach it by themselves.
#pragma once

#include <cstddef>

namespace gpk::inline core {

class Context;

// For all contexts, aligned to 4096; nullptr where there is none left. Throws for other failures.
// Pieces of 1 to 64 MiB get their pages first and are locked when they have them: the driver keeps
// other calls waiting only for the second part, which is short.
void* allocate_page_locked(Context& context, std::size_t bytes);

// What allocate_page_locked() gave.
void free_page_locked(Context& context, void* data) noexcept;

}  // namespace gpk::inline core
