// A shared library opened at run time (dlopen / LoadLibrary). Libraries stay loaded for the life of
// the process: CUDA libraries do not survive being unloaded.
#pragma once

#include <string>

namespace gpk::inline core {

class SharedLibrary {
 public:
  SharedLibrary() = default;

  // Opens `name` (a path, or a soname for the system's search). On failure the result is empty and
  // *why holds the loader's message.
  static SharedLibrary open(const std::string& name, std::string* why);

  // The library if it is already loaded in this process; empty otherwise.
  static SharedLibrary open_if_loaded(const std::string& name);

  [[nodiscard]] explicit operator bool() const noexcept { return handle_ != nullptr; }

  // Address of an exported symbol, nullptr where there is none.
  [[nodiscard]] void* symbol(const char* name) const noexcept;

  // Absolute path of the file that holds `address` (a symbol of this library); empty if unknown.
  static std::string path_of(const void* address);

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* handle_ = nullptr;
};

}  // namespace gpk::inline core
