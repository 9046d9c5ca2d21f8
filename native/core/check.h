// Turns driver results into exceptions. GPK_CU_CHECK(cuMemAlloc, &ptr, bytes) calls that entry of
// the driver table and throws the matching error type on failure.
#pragma once

#include "core/driver.h"

namespace gpk::inline core {

class Context;

// Throws CudaError, OutOfMemory or DeviceLostError for `result` (not kSuccess) of `call` in the
// calling thread's current context. A sticky error marks that context dead.
[[noreturn]] void throw_cuda_error(cu::Result result, const char* call);

// True for errors after which every later call in the context fails too.
bool is_sticky(cu::Result result) noexcept;

// "CUDA_ERROR_ILLEGAL_ADDRESS"; "CUDA_ERROR_<code>" for codes the driver does not know.
const char* result_name(cu::Result result) noexcept;

inline void check_cuda(cu::Result result, const char* call) {
  if (result != cu::kSuccess) [[unlikely]]
    throw_cuda_error(result, call);
}

#define GPK_CU_CHECK(function, ...) \
  ::gpk::check_cuda(::gpk::driver().function(__VA_ARGS__), #function)

}  // namespace gpk::inline core
