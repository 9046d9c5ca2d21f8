#include "base/error.h"

#include "base/text.h"

namespace gpk::inline base {
namespace {

std::string describe(const std::string& what, const OutOfMemory::Numbers& n) {
  const std::string asked = cat(what, ": out of memory: asked ", bytes_text(n.asked_bytes), " (",
                                n.asked_bytes, " bytes)");
  if (n.account_refused)
    return cat(asked, ", account '", n.account, "' has used ", bytes_text(n.account_used_bytes),
               " of its limit of ", bytes_text(n.account_limit_bytes));
  return cat(asked, ", used ", bytes_text(n.used_bytes), ", cached ", bytes_text(n.cached_bytes),
             ", largest free block ", bytes_text(n.largest_free_bytes), ", limit ",
             n.limit_bytes == 0 ? std::string("none") : bytes_text(n.limit_bytes),
             ", free on the device ", bytes_text(n.device_free_bytes),
             n.evicted_bytes == 0 ? std::string()
                                  : cat(", evicted to the host ", bytes_text(n.evicted_bytes)));
}

// what() is for reading and is truncated; log() and source() are complete.
constexpr std::size_t kMaxLogBytes = 8192;
constexpr std::size_t kMaxSourceBytes = 16384;
constexpr std::size_t kMaxLineBytes = 1024;

std::string describe_compile(const std::string& name, const std::string& log,
                             const std::string& source, const std::vector<std::string>& flags) {
  return cat("jit: ", shorten(name, kMaxLineBytes), " does not compile\n\n",
             shorten(trim(log), kMaxLogBytes), "\n\nsource:\n",
             number_lines(shorten(source, kMaxSourceBytes)),
             "\nflags: ", shorten(join(flags, " "), kMaxLineBytes));
}

}  // namespace

OutOfMemory::OutOfMemory(const std::string& what, const Numbers& numbers)
    : Error(Kind::kMemory, describe(what, numbers)), numbers_(numbers) {}

CudaError::CudaError(const std::string& message, int code, std::string name, std::string call,
                     std::vector<std::string> launches)
    : Error(message),
      code_(code),
      name_(std::move(name)),
      call_(std::move(call)),
      launches_(std::move(launches)) {}

NvrtcError::NvrtcError(const std::string& message, NvrtcCode code, std::string log)
    : Error(message), code_(code), log_(std::move(log)) {}

CompileError::CompileError(const std::string& name, NvrtcCode code, const std::string& log,
                           std::string source, std::vector<std::string> flags)
    : NvrtcError(describe_compile(name, log, source, flags), code, log),
      source_(std::move(source)),
      flags_(std::move(flags)) {}

const char* nvrtc_code_name(NvrtcCode code) noexcept {
  switch (code) {
    case NvrtcCode::kSuccess: return "Success";
    case NvrtcCode::kOutOfMemory: return "OutOfMemory";
    case NvrtcCode::kProgramCreationFailure: return "ProgramCreationFailure";
    case NvrtcCode::kInvalidInput: return "InvalidInput";
    case NvrtcCode::kInvalidProgram: return "InvalidProgram";
    case NvrtcCode::kInvalidOption: return "InvalidOption";
    case NvrtcCode::kCompilation: return "Compilation";
    case NvrtcCode::kBuiltinOperationFailure: return "BuiltinOperationFailure";
    case NvrtcCode::kNoNameExpressionsAfterCompilation: return "NoNameExpressionsAfterCompilation";
    case NvrtcCode::kNoLoweredNamesBeforeCompilation: return "NoLoweredNamesBeforeCompilation";
    case NvrtcCode::kNameExpressionNotValid: return "NameExpressionNotValid";
    case NvrtcCode::kInternalError: return "InternalError";
    case NvrtcCode::kNotLoaded: return "NotLoaded";
    case NvrtcCode::kPtxLoadFailed: return "PtxLoadFailed";
    case NvrtcCode::kFunctionNotFound: return "FunctionNotFound";
    case NvrtcCode::kLaunchFailed: return "LaunchFailed";
  }
  return "InternalError";
}

std::string number_lines(const std::string& source) {
  std::string out;
  std::size_t number = 1;
  for (std::size_t begin = 0; begin < source.size();) {
    std::size_t end = source.find('\n', begin);
    if (end == std::string::npos) end = source.size();
    const std::string digits = cat(number++);
    if (digits.size() < 4) out.append(4 - digits.size(), ' ');
    out += cat(digits, " | ", std::string_view(source).substr(begin, end - begin), '\n');
    begin = end + 1;
  }
  return out;
}

}  // namespace gpk::inline base
