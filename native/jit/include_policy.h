// Which files a source may read while it is compiled, for services that compile untrusted code.
#pragma once

#include <string>

#include "jit/compiler.h"

namespace gpk::jit {

// Applies the folders of PYGPUKIT_JIT_INCLUDES where the request names none; throws InvalidArgument
// where it names one outside of them.
void apply_include_policy(CompileRequest& request);

// With request.include_folders: throws InvalidArgument, before anything is read, for an include of
// the source, its headers or its options that is neither in request.headers nor, with symlinks
// resolved, in those folders or that of the CUDA headers, and for constructs that could hide one.
// Includes of the files found are followed. Options that can read or write files are refused.
void check_includes(const CompileRequest& request);

// The log without lines quoted from files that are not part of the request.
std::string without_excerpts(const std::string& log, const CompileRequest& request);

}  // namespace gpk::jit
