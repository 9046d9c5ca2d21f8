#include "core/driver_table.h"

#include <cstdint>
#include <vector>

#include "base/text.h"

namespace gpk::inline core {
namespace {

enum class Need { kRequired, kOptional };

using GetProcAddress11 = cu::Result (*)(const char*, void**, int, std::uint64_t);
using GetProcAddress12 = cu::Result (*)(const char*, void**, int, std::uint64_t, int*);

// Resolves one function: cuGetProcAddress by base name and version, else the exported symbol.
class Resolver {
 public:
  Resolver(const SharedLibrary& library, int driver_version)
      : library_(library),
        version_(driver_version),
        get11_(reinterpret_cast<GetProcAddress11>(library.symbol("cuGetProcAddress"))),
        get12_(reinterpret_cast<GetProcAddress12>(library.symbol("cuGetProcAddress_v2"))) {}

  void* find(const char* base, int version, const char* exported) const {
    if (version > version_) return nullptr;
    constexpr std::uint64_t kLegacy = 1;  // not the per-thread default stream variants
    void* address = nullptr;
    int status = 0;
    if (get12_ != nullptr && get12_(base, &address, version, kLegacy, &status) == cu::kSuccess)
      return address;
    if (get11_ != nullptr && get11_(base, &address, version, kLegacy) == cu::kSuccess)
      return address;
    return library_.symbol(exported);
  }

 private:
  const SharedLibrary& library_;
  int version_;
  GetProcAddress11 get11_;
  GetProcAddress12 get12_;
};

}  // namespace

std::string fill_driver_table(const SharedLibrary& library, int driver_version,
                              cu::DriverApi& api) {
  const Resolver resolver(library, driver_version);
  std::vector<std::string> missing;
  using enum Need;
#define GPK_CU(name, since, symbol, need, params)                                       \
  api.name = reinterpret_cast<decltype(api.name)>(resolver.find(#name, since, symbol)); \
  if (api.name == nullptr && (need) == kRequired) missing.emplace_back(#name);
#include "core/driver_functions.def"
#undef GPK_CU
  if (missing.empty()) return {};
  return cat("the CUDA driver (version ", driver_version, ") is too old: it lacks ",
             join(missing, ", "));
}

}  // namespace gpk::inline core
