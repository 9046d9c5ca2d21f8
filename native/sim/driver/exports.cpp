// cuGetProcAddress: how clients find the functions of core/driver_functions.def.
#include <cstring>

#include "sim/driver/functions.h"

namespace gpk::sim::driver {
namespace {

struct Symbol {
  const char* name;
  int version;
  void* address;
};

const Symbol kSymbols[] = {
#define GPK_CU(name, version, symbol, need, params) \
  {#name, version, reinterpret_cast<void*>(&name)},
#include "core/driver_functions.def"
#undef GPK_CU
};

}  // namespace
}  // namespace gpk::sim::driver

extern "C" {

GPK_SIM_EXPORT int cuGetProcAddress_v2(const char* name, void** address, int version, std::uint64_t,
                                       int* status) {
  using namespace gpk::sim::driver;
  *address = nullptr;
  for (const Symbol& symbol : kSymbols) {
    if (std::strcmp(symbol.name, name) != 0) continue;
    const bool new_enough = symbol.version <= version;
    if (new_enough) *address = symbol.address;
    if (status != nullptr) *status = new_enough ? 0 : 2;  // VERSION_NOT_SUFFICIENT
    return new_enough ? kSuccess : kNotFound;
  }
  if (status != nullptr) *status = 1;  // SYMBOL_NOT_FOUND
  return kNotFound;
}

GPK_SIM_EXPORT int cuGetProcAddress(const char* name, void** address, int version,
                                    std::uint64_t flags) {
  return cuGetProcAddress_v2(name, address, version, flags, nullptr);
}
}
