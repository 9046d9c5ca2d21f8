#include "core/library.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#endif

namespace gpk::inline core {

#ifdef _WIN32

SharedLibrary SharedLibrary::open(const std::string& name, std::string* why) {
  HMODULE handle = LoadLibraryExA(name.c_str(), nullptr, LOAD_WITH_ALTERED_SEARCH_PATH);
  if (handle == nullptr && why != nullptr) *why = "error " + std::to_string(GetLastError());
  return SharedLibrary(handle);
}

SharedLibrary SharedLibrary::open_if_loaded(const std::string& name) {
  return SharedLibrary(GetModuleHandleA(name.c_str()));
}

void* SharedLibrary::symbol(const char* name) const noexcept {
  return handle_ == nullptr
             ? nullptr
             : reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(handle_), name));
}

std::string SharedLibrary::path_of(const void* address) {
  HMODULE module = nullptr;
  constexpr DWORD kFlags =
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (!GetModuleHandleExA(kFlags, static_cast<LPCSTR>(address), &module)) return {};
  char path[MAX_PATH];
  const DWORD size = GetModuleFileNameA(module, path, MAX_PATH);
  return std::string(path, size);
}

#else

SharedLibrary SharedLibrary::open(const std::string& name, std::string* why) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr && why != nullptr) {
    const char* message = dlerror();
    *why = message == nullptr ? "unknown error" : message;
  }
  return SharedLibrary(handle);
}

SharedLibrary SharedLibrary::open_if_loaded(const std::string& name) {
  return SharedLibrary(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD));
}

void* SharedLibrary::symbol(const char* name) const noexcept {
  return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

std::string SharedLibrary::path_of(const void* address) {
  Dl_info found{};
  if (dladdr(address, &found) == 0 || found.dli_fname == nullptr) return {};
  char resolved[PATH_MAX];
  return realpath(found.dli_fname, resolved) != nullptr ? resolved : found.dli_fname;
}

#endif

}  // namespace gpk::inline core
