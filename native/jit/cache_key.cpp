#include <string>

#include "base/text.h"
#include "jit/cache_entry.h"
#include "jit/digest.h"
#include "jit/disk_cache.h"
#include "jit/include_folder.h"
#include "jit/include_scan.h"
#include "jit/nvrtc.h"

#ifndef GPK_VERSION
#define GPK_VERSION "0.0.0"
#endif

namespace gpk::jit {

std::string cache_key(const CompileRequest& request, const Nvrtc& nvrtc) {
  const IncludeClosure closure = include_closure(request, nvrtc.include_folder);

  FieldDigest key;
  key.field("schema", cat(kCacheSchema)).field("package", GPK_VERSION);
  key.field("nvrtc", cat(nvrtc.major, ".", nvrtc.minor));
  key.field("sm", cat(request.sm)).field("want_ptx", cat(request.want_ptx));
  // The final flags rather than the caller's: they include the target NVRTC supports and the header
  // folders.
  for (const std::string& flag : compile_flags(request, nvrtc)) key.field("flag", flag);
  if (closure.needs_folder && !nvrtc.include_folder.empty()) {
    const auto version = header_version(nvrtc.include_folder).value_or(std::pair(0, 0));
    key.field("cuda_headers", cat(version.first, ".", version.second));
  }
  key.field("name", request.name).field("source", sha256_hex(request.source));
  for (const SourceFile& header : request.headers) {
    key.field("header", header.name).field("text", sha256_hex(header.text));
  }
  for (const IncludedFile& file : closure.files) {
    key.field("file", file.path).field("text", sha256_hex(file.text));
  }
  if (request.include_folders) {
    key.field("include_folders", "");
    for (const std::string& folder : *request.include_folders) key.field("folder", folder);
  }
  for (const std::string& expression : request.name_expressions) {
    key.field("expression", expression);
  }
  return key.hex();
}

}  // namespace gpk::jit
