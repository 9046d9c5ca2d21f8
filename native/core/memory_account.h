// The memory accounts of partitions. A stream names the account (Stream::account()) that pays for
// what is allocated while it is current.
#pragma once

#include <cstddef>

#include "core/device.h"
#include "runtime/pool_account.h"

namespace gpk {

// `limit_bytes` 0: none. Lives until closed.
runtime::PoolAccount* open_memory_account(Device device, std::size_t limit_bytes,
                                          runtime::PoolClass evict_class);
// Throws runtime::Error (kState) while memory is charged to it.
void close_memory_account(Device device, runtime::PoolAccount* account);

}  // namespace gpk
