#include "jit/compiler.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "core/compile_scope.h"
#include "jit/include_policy.h"
#include "jit/include_scan.h"
#include "jit/missing_header.h"
#include "jit/nvrtc.h"
#include "jit/options.h"

namespace gpk::jit {
namespace {

constexpr int kMaxTries = 3;
constexpr int kFirstWaitMs = 100;
constexpr std::size_t kMaxLogBytes = std::size_t{1} << 20;  // of the log that is kept
constexpr std::size_t kMaxMessageBytes = 8192;

bool has_option(const std::vector<std::string>& options, std::string_view short_name,
                std::string_view long_name) {
  return std::any_of(options.begin(), options.end(), [&](const std::string& option) {
    const std::string_view text = trim(option);
    for (const std::string_view name : {short_name, long_name}) {
      if (!text.starts_with(name)) continue;
      if (text.size() == name.size() || text[name.size()] == '=' || text[name.size()] == ' ') {
        return true;
      }
    }
    return false;
  });
}

// The value of the target flag. For a chip it does not know, NVRTC emits PTX for the newest target
// below it, which the driver compiles. Where there is none, NVRTC reports the error.
std::string target(const CompileRequest& request, const Nvrtc& nvrtc) {
  std::string name = arch_name(request.sm);
  const std::vector<int>& archs = nvrtc.archs;
  if (!archs.empty() && std::find(archs.begin(), archs.end(), request.sm) == archs.end()) {
    int below = 0;
    for (const int sm : archs) {
      if (sm < request.sm) below = std::max(below, sm);
    }
    if (below > 0) return cat("compute_", below);
  }
  // The "a" targets were introduced with NVRTC 12.
  if (nvrtc.major < 12 && name.ends_with('a')) name.pop_back();
  return request.want_ptx ? cat("compute_", std::string_view(name).substr(3)) : name;
}

// With line information NVRTC writes names of sources as files of the working folder, which they
// are not: .file 1 "/home/me/scale.cu" becomes .file 1 "scale.cu".
std::string without_folder(std::string ptx) {
  std::error_code ec;
  const std::string folder = cat('"', std::filesystem::current_path(ec).string(), '/');
  for (std::size_t at = ptx.find("\n\t.file"); at != std::string::npos && !ec;
       at = ptx.find("\n\t.file", at + 1)) {
    const std::size_t name = ptx.find('"', at);
    if (ptx.compare(name, folder.size(), folder) == 0) ptx.erase(name + 1, folder.size() - 1);
  }
  return ptx;
}

// RAII for one nvrtcProgram.
class Session {
 public:
  Session(const Nvrtc& nvrtc, const CompileRequest& request) : api_(nvrtc.api), request_(request) {
    std::vector<const char*> texts;
    std::vector<const char*> names;
    for (const SourceFile& header : request.headers) {
      texts.push_back(header.text.c_str());
      names.push_back(header.name.c_str());
    }
    check(api_.nvrtcCreateProgram(&program_, request.source.c_str(), request.name.c_str(),
                                  static_cast<int>(texts.size()), texts.data(), names.data()),
          "nvrtcCreateProgram");
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { api_.nvrtcDestroyProgram(&program_); }

  NvrtcCode compile(const std::vector<std::string>& flags) {
    for (const std::string& expression : request_.name_expressions) {
      check(api_.nvrtcAddNameExpression(program_, expression.c_str()), "nvrtcAddNameExpression");
    }
    std::vector<const char*> options;
    for (const std::string& flag : flags) options.push_back(flag.c_str());
    return static_cast<NvrtcCode>(
        api_.nvrtcCompileProgram(program_, static_cast<int>(options.size()), options.data()));
  }

  std::string log() {
    std::string text =
        fetch(api_.nvrtcGetProgramLogSize, api_.nvrtcGetProgramLog, "nvrtcGetProgramLog");
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return shorten(without_excerpts(text, request_), kMaxLogBytes);
  }

  CompiledImage image() {
    CompiledImage out;
    if (!request_.want_ptx) {
      out.bytes = fetch(api_.nvrtcGetCUBINSize, api_.nvrtcGetCUBIN, "nvrtcGetCUBIN");
    }
    if (out.bytes.empty()) {
      out.kind = CompiledImage::Kind::kPtx;
      out.bytes = without_folder(fetch(api_.nvrtcGetPTXSize, api_.nvrtcGetPTX, "nvrtcGetPTX"));
    }
    for (const std::string& expression : request_.name_expressions) {
      const char* symbol = nullptr;
      check(api_.nvrtcGetLoweredName(program_, expression.c_str(), &symbol), "nvrtcGetLoweredName");
      out.lowered_names.emplace_back(expression, symbol);
    }
    out.log = log();
    return out;
  }

 private:
  void check(int code, const char* call) const {
    if (code == 0) return;
    const auto known = static_cast<NvrtcCode>(code);
    throw NvrtcError(
        cat("jit: ", request_.name, ": ", call, " failed with ", nvrtc_code_name(known)), known);
  }

  template <class Size, class Get>
  std::string fetch(Size size, Get get, const char* call) const {
    std::size_t bytes = 0;
    check(size(program_, &bytes), call);
    std::string out(bytes, '\0');
    if (bytes > 0) check(get(program_, out.data()), call);
    return out;
  }

  const NvrtcApi& api_;
  const CompileRequest& request_;
  NvrtcProgram program_ = nullptr;
};

bool may_pass_on_retry(NvrtcCode code) {
  return code == NvrtcCode::kOutOfMemory || code == NvrtcCode::kInternalError ||
         code == NvrtcCode::kBuiltinOperationFailure;
}

[[noreturn]] void fail(const CompileRequest& request, const Nvrtc& nvrtc, NvrtcCode code,
                       std::string log, const std::vector<std::string>& flags) {
  if (code == NvrtcCode::kCompilation) {
    log += missing_header_advice(log, nvrtc);
    throw CompileError(request.name, code, log, request.source, flags);
  }
  if (code == NvrtcCode::kInvalidOption) {
    const std::string why = shorten(explain_invalid_option(log), kMaxMessageBytes);
    throw NvrtcError(cat("jit: ", request.name, ": options: ", why), code, std::move(log));
  }
  const std::string message = cat("jit: ", request.name, ": NVRTC failed with ",
                                  nvrtc_code_name(code), ": ", shorten(trim(log), kMaxMessageBytes),
                                  "\nflags: ", shorten(join(flags, " "), kMaxMessageBytes));
  throw NvrtcError(message, code, std::move(log));
}

void check_request(const CompileRequest& request) {
  if (request.source.empty()) throw InvalidArgument(cat("jit: ", request.name, " is empty"));
  if (request.source.find('\0') != std::string::npos) {
    throw InvalidArgument(cat("jit: ", request.name, " holds a NUL character"));
  }
  check_includes(request);
}

}  // namespace

std::string CompiledImage::symbol(const std::string& expression) const {
  for (const auto& [name, symbol] : lowered_names) {
    if (name == expression) return symbol;
  }
  return expression;
}

std::string arch_name(int sm) { return cat("sm_", sm, sm >= 90 ? "a" : ""); }

std::vector<std::string> compile_flags(const CompileRequest& request, const Nvrtc& nvrtc) {
  std::vector<std::string> flags;
  const std::vector<std::string> options = nvrtc_options(request.options);
  if (!has_option(options, "-arch", "--gpu-architecture")) {
    flags.push_back(cat("--gpu-architecture=", target(request, nvrtc)));
  }
  if (!has_option(options, "-std", "--std")) flags.push_back("--std=c++17");
  flags.insert(flags.end(), options.begin(), options.end());
  if (request.include_folders) {
    for (const std::string& folder : *request.include_folders)
      flags.push_back(cat("--include-path=", folder));
  }
  const std::string& folder = nvrtc.include_folder;
  // After the caller's own paths, so that those take precedence.
  if (!folder.empty() && include_closure(request, folder).needs_folder) {
    flags.push_back(cat("--include-path=", folder));
    // cuda/std and friends; a separate folder since CUDA 13.
    const std::string cccl = cat(folder, "/cccl");
    std::error_code ec;
    if (std::filesystem::is_directory(cccl, ec)) flags.push_back(cat("--include-path=", cccl));
  }
  return flags;
}

CompiledImage compile(const CompileRequest& request) {
  check_request(request);
  const CompileScope compiling;
  const Nvrtc& found = nvrtc();
  const std::vector<std::string> flags = compile_flags(request, found);
  for (int tries = 1;; ++tries) {
    Session session(found, request);
    const NvrtcCode code = session.compile(flags);
    if (code == NvrtcCode::kSuccess) return session.image();
    if (!may_pass_on_retry(code) || tries == kMaxTries) {
      fail(request, found, code, session.log(), flags);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(kFirstWaitMs << (tries - 1)));
  }
}

}  // namespace gpk::jit
