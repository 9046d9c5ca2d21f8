#include "device/memory_account.h"

#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "device/device_pool.h"

namespace gpk::device {
namespace detail {

struct ThreadPlaces {
  struct Place {
    std::shared_ptr<MemoryAccount> account;
    runtime::PoolArena* arena = nullptr;
  };
  std::map<std::pair<DeviceKind, int>, Place> by_device;
};

thread_local constinit ThreadPlaces* t_places = nullptr;

}  // namespace detail

namespace {

using detail::ThreadPlaces;

// Cleared when the thread ends, so that allocations of later destructors find nothing.
struct PlacesOwner {
  ThreadPlaces places;
  PlacesOwner() { detail::t_places = &places; }
  ~PlacesOwner() { detail::t_places = nullptr; }
  PlacesOwner(const PlacesOwner&) = delete;
  PlacesOwner& operator=(const PlacesOwner&) = delete;
};

ThreadPlaces::Place& place_of(Device device) {
  thread_local PlacesOwner owner;
  return owner.places.by_device[{device.kind, device.index}];
}

struct Registry {
  std::mutex mutex;
  std::map<std::pair<runtime::Pool*, std::string>, std::weak_ptr<MemoryAccount>> accounts;
};

Registry& registry() {
  static auto* instance = new Registry;  // never destroyed: buffers may outlive main()
  return *instance;
}

}  // namespace

std::shared_ptr<MemoryAccount> MemoryAccount::open(Device device, const std::string& name,
                                                   std::optional<std::size_t> limit_bytes,
                                                   runtime::PoolClass evict_class) {
  if (name.empty()) throw InvalidArgument("memory.account: name is empty");
  runtime::Pool& pool = device_pool(device);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::weak_ptr<MemoryAccount>& known = all.accounts[{&pool, name}];
  if (auto account = known.lock()) {
    if (limit_bytes) account->set_limit(*limit_bytes);
    return account;
  }
  runtime::PoolAccount* account = pool.open_account(limit_bytes.value_or(0), evict_class, name);
  std::shared_ptr<MemoryAccount> opened(new MemoryAccount(device, pool, account));
  known = opened;
  return opened;
}

std::shared_ptr<MemoryAccount> MemoryAccount::reserve(std::shared_ptr<MemoryAccount> parent,
                                                      std::size_t bytes) {
  runtime::Pool& pool = parent->pool_;
  const Device device = parent->device_;
  runtime::PoolAccount* account = pool.open_reservation(*parent->account_, bytes);
  if (account == nullptr) return nullptr;
  return std::shared_ptr<MemoryAccount>(
      new MemoryAccount(device, pool, account, std::move(parent)));
}

MemoryAccount::~MemoryAccount() {
  try {
    if (parent_ != nullptr) {
      pool_.close_account(account_);
      return;
    }
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    const auto found = all.accounts.find({&pool_, name()});
    if (found != all.accounts.end() && found->second.expired()) all.accounts.erase(found);
    pool_.close_account(account_);
  } catch (...) {  // still charged by memory of a lost device: the pool keeps it
  }
}

std::shared_ptr<MemoryAccount> current_account(Device device) {
  return has_thread_places() ? place_of(device).account : nullptr;
}

std::shared_ptr<MemoryAccount> exchange_current_account(Device device,
                                                        std::shared_ptr<MemoryAccount> account) {
  return std::exchange(place_of(device).account, std::move(account));
}

runtime::PoolArena* exchange_current_arena(Device device, runtime::PoolArena* arena) {
  return std::exchange(place_of(device).arena, arena);
}

std::shared_ptr<MemoryAccount> apply_thread_place(Device device, runtime::PoolPlace& place) {
  const ThreadPlaces::Place& here = place_of(device);
  place.arena = here.arena;
  if (here.account) place.account = here.account->account();
  return here.account;
}

}  // namespace gpk::device
