// Kernels prepared in the background. The first use of a family of ops is followed by others, and
// machine code of a large kernel takes the driver up to half a second: the family's usual kernels
// are assembled into the disk cache meanwhile, on a few threads of low priority
// (PYGPUKIT_PREFETCH). Only bundled kernels, only once per machine and driver, and nothing without
// the cache. A kernel that is wanted sooner is assembled by whoever wants it, or waited for when it
// is under way; results are the same either way.
#pragma once

#include <functional>
#include <vector>

#include "jit/builtin.h"

namespace gpk::jit {

// Calls `list` and prepares what it returns, all on background threads. Returns at once; failures
// are left to the first use. The context must live as long as the process.
void prefetch(Context& context, std::function<std::vector<KernelSpec>()> list);

// Drops what has not begun, waits for what has, and takes no more. Python calls it when the
// interpreter ends; elsewhere end_compiles() (core/compile_scope.h) does what is needed at exit.
void stop_prefetch() noexcept;

// Waits until nothing is left to do. For tests.
void finish_prefetch();

}  // namespace gpk::jit
