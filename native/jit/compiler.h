// CUDA C source to machine code.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jit/nvrtc.h"

namespace gpk::jit {

struct SourceFile {
  std::string name;  // as written in #include "..."
  std::string text;
};

// What to compile. Two requests with equal fields give the same image.
struct CompileRequest {
  std::string name;  // for messages and the log: "scale.cu"
  std::string source;
  std::vector<SourceFile> headers;            // passed to NVRTC by name, never read from disk
  std::vector<std::string> options;           // as the caller wrote them (jit/options.h)
  std::vector<std::string> name_expressions;  // templates and mangled names to look up
  int sm = 0;                                 // 90 for an H200
  bool want_ptx = false;                      // PTX instead of machine code, for the same target:
                                              // compute_80, but compute_90a (that chip only)
  // The only folders, apart from CUDA's, that includes may read, searched after those of -I; not
  // set: any (jit/include_policy.h).
  std::optional<std::vector<std::string>> include_folders = std::nullopt;
};

struct CompiledImage {
  enum class Kind { kCubin, kPtx };
  Kind kind = Kind::kCubin;
  std::string bytes;  // PTX ends with its terminating NUL
  std::vector<std::pair<std::string, std::string>> lowered_names;  // expression -> symbol
  std::string log;  // warnings and, with -v, resource usage

  // Mangled name of a name expression; the expression itself when it was not lowered.
  [[nodiscard]] std::string symbol(const std::string& expression) const;
};

// "sm_90a" for sm 90: the architecture-specific target where the chip has one ("a" from 90 on).
std::string arch_name(int sm);

// The flags compile() passes to NVRTC: nvrtc_options() plus defaults for what they leave open
// (target, --std=c++17, the folder of CUDA headers). The caller's -arch overrides request.sm.
std::vector<std::string> compile_flags(const CompileRequest& request, const Nvrtc& nvrtc);

// Compiles with NVRTC, bypassing every cache. CUBIN for arch_name(sm); PTX instead when NVRTC does
// not know the GPU (newest known target below it), with want_ptx, or for -arch=compute_XX. Throws
// CompileError for source that does not compile (its log says what to install when CUDA headers are
// missing), NvrtcError otherwise. Out-of-memory and internal errors are retried, three attempts in
// all.
CompiledImage compile(const CompileRequest& request);

// Same through the disk cache (jit/disk_cache.h). Threads that request one key concurrently share
// one compile; other keys are not blocked. A failed compile is never stored. Where an interrupt
// hook is set (core/interrupt.h) the wait can be interrupted; the compile continues. On the
// simulated driver the image is always PTX.
CompiledImage compile_cached(const CompileRequest& request);

// compute_80 PTX as emitted by this NVRTC can be too new for older drivers. Removes newer hints,
// and lowers ".version" to the oldest PTX ISA that supports the target architecture and the
// features our kernels use beyond it; tests/unit/test_bundle.py assembles every bundled kernel.
std::string lower_ptx_version(std::string ptx);

}  // namespace gpk::jit
