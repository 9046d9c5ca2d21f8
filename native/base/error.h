// The exception types of the library. Every message starts with the op or call it belongs to and
// names the argument, what was given and what was expected: "add: a has shape (3,), b has (4,)".
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpk::inline base {

class Error : public std::runtime_error {
 public:
  // Selects the Python exception class.
  enum class Kind {
    kValue,     // an argument out of range, an unknown or duplicate id: ValueError
    kType,      // TypeError
    kIndex,     // IndexError
    kOverflow,  // OverflowError
    kAxis,      // an axis out of bounds: ValueError and IndexError
    kState,     // not possible now: evicted, exhausted, wrong state: RuntimeError
    kMemory,    // a quota or the memory of the device is exhausted: MemoryError
  };
  Error(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  explicit Error(const std::string& message) : Error(Kind::kState, message) {}
  [[nodiscard]] Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

// Bad input from the caller; nothing was launched or allocated.
class InvalidArgument : public Error {
 public:
  using Error::Error;
  explicit InvalidArgument(const std::string& message) : Error(Kind::kValue, message) {}
};

// A wait that can never end; the message names who holds what.
class DeadlockError : public Error {
 public:
  using Error::Error;
};

// Device (or pinned host) memory could not be allocated even after cached memory was released.
class OutOfMemory : public Error {
 public:
  struct Numbers {
    std::size_t asked_bytes = 0;
    std::size_t used_bytes = 0;
    std::size_t cached_bytes = 0;
    std::size_t largest_free_bytes = 0;
    std::size_t limit_bytes = 0;  // 0: no limit set
    std::size_t device_free_bytes = 0;
    std::size_t evicted_bytes = 0;   // evicted to host memory
    std::size_t reserved_bytes = 0;  // physical memory held by the pool
    // The account that the thread's allocations are charged to; empty: none.
    std::string account;
    std::size_t account_used_bytes = 0;
    std::size_t account_limit_bytes = 0;
    bool account_refused = false;  // refused by the account's limit, not the device's
  };
  OutOfMemory(const std::string& what, const Numbers& numbers);
  [[nodiscard]] const Numbers& numbers() const noexcept { return numbers_; }

 private:
  Numbers numbers_;
};

// The driver refused a call, or reported the failure of an earlier launch.
class CudaError : public Error {
 public:
  CudaError(const std::string& message, int code, std::string name, std::string call,
            std::vector<std::string> launches);
  [[nodiscard]] int code() const noexcept { return code_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }  // CUDA_ERROR_...
  [[nodiscard]] const std::string& call() const noexcept { return call_; }  // cuStreamSynchronize
  // Newest first: "scale<<<(4,1,1), (256,1,1)>>> on stream 0x0".
  [[nodiscard]] const std::vector<std::string>& launches() const noexcept { return launches_; }

 private:
  int code_;
  std::string name_;
  std::string call_;
  std::vector<std::string> launches_;
};

// The context was lost to an earlier sticky error (named in the message); only a new process
// recovers.
class DeviceLostError : public CudaError {
 public:
  using CudaError::CudaError;
};

// No usable driver or GPU where one is required; the message lists what was tried.
class GpuUnavailable : public Error {
 public:
  using Error::Error;
};

// An operation that cannot be part of a CUDA graph was called during capture, or captures were
// nested or ended wrongly.
class CaptureError : public Error {
 public:
  using Error::Error;
};

// Memory that cannot be exchanged with another library as requested. Python: BufferError.
class ExchangeError : public Error {
 public:
  using Error::Error;
};

// Values of nvrtcResult, then our own from 1000 on. The names are public (NvrtcErrorCode).
enum class NvrtcCode : int {
  kSuccess = 0,
  kOutOfMemory = 1,
  kProgramCreationFailure = 2,
  kInvalidInput = 3,
  kInvalidProgram = 4,
  kInvalidOption = 5,
  kCompilation = 6,
  kBuiltinOperationFailure = 7,
  kNoNameExpressionsAfterCompilation = 8,
  kNoLoweredNamesBeforeCompilation = 9,
  kNameExpressionNotValid = 10,
  kInternalError = 11,
  kNotLoaded = 1000,
  kPtxLoadFailed = 1001,
  kFunctionNotFound = 1002,
  kLaunchFailed = 1003,
};

// "Compilation", "NotLoaded", ...
const char* nvrtc_code_name(NvrtcCode code) noexcept;

// NVRTC is missing, refused a call, or its output could not be loaded.
class NvrtcError : public Error {
 public:
  NvrtcError(const std::string& message, NvrtcCode code, std::string log = {});
  [[nodiscard]] NvrtcCode code() const noexcept { return code_; }
  [[nodiscard]] const std::string& log() const noexcept { return log_; }

 private:
  NvrtcCode code_;
  std::string log_;
};

// CUDA C source that does not compile. what() holds log, numbered source and flags, ready to print.
class CompileError : public NvrtcError {
 public:
  CompileError(const std::string& name, NvrtcCode code, const std::string& log, std::string source,
               std::vector<std::string> flags);
  [[nodiscard]] const std::string& source() const noexcept { return source_; }
  [[nodiscard]] const std::vector<std::string>& flags() const noexcept { return flags_; }

 private:
  std::string source_;
  std::vector<std::string> flags_;
};

// "   1 | __global__ void f() {" for every line.
std::string number_lines(const std::string& source);

}  // namespace gpk::inline base
