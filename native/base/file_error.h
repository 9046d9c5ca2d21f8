// The error of a file that cannot be opened, read or written.
#pragma once

#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace gpk::inline base {

// Python: OSError of that errno (FileNotFoundError, PermissionError, ...).
class FileError : public Error {
 public:
  // `code` is an errno value.
  FileError(const std::string& op, int code, std::string path)
      : Error(cat(op, ": ", path, ": ", std::generic_category().message(code))),
        code_(code),
        path_(std::move(path)) {}
  [[nodiscard]] int code() const noexcept { return code_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  int code_;
  std::string path_;
};

}  // namespace gpk::inline base
