// What the runtime throws. Messages start with the class or function: "PartitionManager: ...".
#pragma once

#include <stdexcept>
#include <string>

namespace gpk::runtime {

class Error : public std::runtime_error {
 public:
  enum class Kind {
    kValue,   // an unknown or duplicate id, an argument out of range; Python: ValueError
    kState,   // not possible now: evicted, exhausted, wrong state; Python: RuntimeError
    kMemory,  // a quota or the device's memory is exhausted; Python: MemoryError
  };
  Error(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

// A wait that could never end; the text names who holds what.
class DeadlockError : public Error {
 public:
  explicit DeadlockError(const std::string& message) : Error(Kind::kState, message) {}
};

}  // namespace gpk::runtime
