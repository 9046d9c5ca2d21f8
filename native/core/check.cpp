#include "core/check.h"

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"

namespace gpk::inline core {

bool is_sticky(cu::Result result) noexcept {
  switch (result) {
    case cu::kEccUncorrectable:
    case cu::kNvlinkUncorrectable:
    case cu::kContained:
    case cu::kIllegalAddress:
    case cu::kLaunchTimeout:
    case cu::kAssert:
    case cu::kHardwareStackError:
    case cu::kIllegalInstruction:
    case cu::kMisalignedAddress:
    case cu::kInvalidAddressSpace:
    case cu::kInvalidPc:
    case cu::kLaunchFailed:
    case cu::kTensorMemoryLeak: return true;
    default: return false;
  }
}

const char* result_name(cu::Result result) noexcept {
  const char* text = nullptr;
  try {
    if (driver().cuGetErrorName(result, &text) == cu::kSuccess && text != nullptr) return text;
  } catch (...) {  // no driver: fall back to the numeric code
  }
  return "CUDA_ERROR";
}

void throw_cuda_error(cu::Result result, const char* call) {
  if (result == cu::kOutOfMemory) {
    OutOfMemory::Numbers numbers;
    std::size_t total = 0;
    driver().cuMemGetInfo(&numbers.device_free_bytes, &total);
    throw OutOfMemory(call, numbers);
  }
  const char* name = result_name(result);
  const char* text = nullptr;
  if (driver().cuGetErrorString(result, &text) != cu::kSuccess || text == nullptr) text = "";
  Context* context = Context::current_or_null();
  std::vector<std::string> launches;
  if (context != nullptr) launches = context->recent_launches();
  std::string message = cat(call, " failed: ", name, " (", result, ")");
  if (*text != '\0') message += cat(": ", text);
  if (!is_sticky(result)) throw CudaError(message, result, name, call, {});
  if (!launches.empty())
    message += cat("\nThe kernel that failed is among the last launches, newest first:\n  ",
                   join(launches, "\n  "),
                   "\nSet PYGPUKIT_LAUNCH_BLOCKING=1 to have the failing launch itself raise.");
  if (context != nullptr)
    context->mark_dead(launches.empty() ? cat(name, " in ", call)
                                        : cat(name, " in ", call, " after ", launches.front()));
  throw CudaError(message, result, name, call, std::move(launches));
}

}  // namespace gpk::inline core
