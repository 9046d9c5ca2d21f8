#include "core/memory_account.h"

#include <atomic>
#include <string>

#include "runtime/error.h"

namespace gpk {

runtime::PoolAccount* open_memory_account(Device, std::size_t limit_bytes,
                                          runtime::PoolClass evict_class) {
  static std::atomic<std::uint64_t> next{1};
  return new runtime::PoolAccount(next++, limit_bytes, evict_class);
}

void close_memory_account(Device, runtime::PoolAccount* account) {
  if (const std::size_t used = account->stats().used_bytes; used != 0)
    throw runtime::Error(runtime::Error::Kind::kState,
                         "memory account " + std::to_string(account->id()) + " holds " +
                             std::to_string(used) + " bytes");
  delete account;
}

}  // namespace gpk
