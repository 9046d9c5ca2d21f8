// Background assembly of kernels. The first use of a family of ops is usually followed by others,
// and the driver takes up to half a second to assemble a large kernel: meanwhile the family's
// common kernels are assembled into the disk cache on a few low-priority threads
// (PYGPUKIT_PREFETCH). Bundled kernels only, once per machine and driver, and only with the cache
// enabled. A kernel needed sooner is assembled by the thread that needs it, or waited for when it
// is in flight; results are the same either way.
#pragma once

#include <functional>
#include <vector>

#include "jit/builtin.h"

namespace gpk::jit {

// Calls `list` and prepares the kernels it returns, all on background threads. Returns at once;
// failures are left to the first use. The context must live as long as the process.
void prefetch(Context& context, std::function<std::vector<KernelSpec>()> list);

// Drops pending work, waits for work in flight, and accepts no more. Python calls it at interpreter
// shutdown; elsewhere end_compiles() (core/compile_scope.h) suffices at exit.
void stop_prefetch() noexcept;

// Waits until the queue is empty. For tests.
void finish_prefetch();

}  // namespace gpk::jit
