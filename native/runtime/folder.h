// Files by name in one folder. Injected, as the device and the clock are.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpk::runtime {

// Never throws for trouble with files. Thread safe.
class Folder {
 public:
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
    std::chrono::system_clock::time_point written;
  };

  virtual ~Folder() = default;

  // nullopt for a file that is not there, cannot be read to its end or is larger than `max_bytes`
  // (nothing is read then).
  [[nodiscard]] virtual std::optional<std::string> read(const std::string& name,
                                                        std::uint64_t max_bytes) const = 0;
  // All or nothing, for readers too; the folder is made where there is none. The reason for
  // failure; empty: written.
  virtual std::string write(const std::string& name, const std::string& bytes) const = 0;
  virtual bool remove(const std::string& name) const = 0;
  [[nodiscard]] virtual std::vector<File> list() const = 0;
};

}  // namespace gpk::runtime
