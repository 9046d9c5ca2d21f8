// Counters that the blocks of a kernel synchronise by.
#pragma once

#include <cstdint>

#include "core/array.h"

namespace gpk::ops {

// At least `count` zeros (uint32) on `device` for a kernel about to be submitted to the current
// stream, which leaves zeros behind. They belong to the calling thread and the stream, whose
// kernels run one after another; a graph being captured gets its own, cleared at every replay.
Array zeroed_counters(Device device, std::int64_t count);

}  // namespace gpk::ops
