// Pinned host memory, which the GPU's copy engines access directly.
#pragma once

#include <cstddef>

namespace gpk::inline core {

class Context;

// Usable by all contexts, aligned to 4096; nullptr when out of memory. Throws for other failures.
// Blocks of 1 to 64 MiB are populated first and registered afterwards: the driver holds up other
// calls only during the second step, which is short.
void* allocate_page_locked(Context& context, std::size_t bytes);

// Frees a block of allocate_page_locked().
void free_page_locked(Context& context, void* data) noexcept;

}  // namespace gpk::inline core
