// A textual scan of #include lines, without preprocessing: conditionals are not evaluated, so the
// result may name more files than the compiler reads. __has_include is ignored.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/compiler.h"

namespace gpk::jit {

struct IncludeLine {
  std::string name;     // as written; empty for a computed include (#include MACRO)
  bool quoted = false;  // "name" rather than <name>
};

std::vector<IncludeLine> scan_includes(std::string_view source);

// Reads a regular file; nullopt where it cannot be read to its end.
std::optional<std::string> read_text(const std::string& path);

// Values of -I / --include-path, in order, and of -include / --pre-include.
std::vector<std::string> include_paths(const std::vector<std::string>& options);
std::vector<std::string> pre_includes(const std::vector<std::string>& options);

struct IncludedFile {
  std::string path;
  std::string text;
};

struct IncludeClosure {
  std::vector<IncludedFile> files;  // found on disk, sorted by path, each once
  bool needs_folder = false;        // some include is neither in request.headers nor found on disk
  bool complete = true;             // false: a computed include may read unknown files
};

// Follows the includes of a request through request.headers, the folder of the including file, the
// working folder and the include paths of its options. A name found in several folders counts in
// all of them. Files below `skip_folder` (empty: none) are not read. Throws what
// check_includes(request) throws (jit/include_policy.h), before anything is read.
IncludeClosure include_closure(const CompileRequest& request, const std::string& skip_folder);

}  // namespace gpk::jit
