// Compiled kernels on disk, shared by all processes of a user. One checksummed file per entry,
// named by the digest of its key; anything corrupt, truncated, of another schema, too large or
// untrusted (core/private_folder.h) is a miss. A folder that is untrusted or not writable makes the
// cache memory-only, with one warning. The size is capped; eviction is LRU.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "core/private_folder.h"
#include "jit/compiler.h"

namespace gpk::jit {

class DiskCache {
 public:
  struct Stat {
    std::uint64_t num_entries = 0;
    std::uint64_t total_bytes = 0;
  };

  // `folder` is created on first write. Never throws for file-system errors. Thread safe.
  DiskCache(std::string folder, std::uint64_t max_bytes);

  // `key` is the 64-character digest of cache_key(); anything else is a miss.
  std::optional<CompiledImage> load(const std::string& key);
  void store(const std::string& key, const CompiledImage& image);

  [[nodiscard]] Stat stat() const;  // entries on disk
  std::uint64_t clear();  // number of entries removed; a memory-only cache retries the disk
  [[nodiscard]] const std::string& folder() const noexcept { return files_.path(); }

 private:
  void keep_in_memory(const std::string& key, const CompiledImage& image, const std::string& why);
  void trim_to_cap(std::uint64_t added_bytes);

  PrivateFolder files_;
  std::uint64_t max_bytes_;
  std::mutex mutex_;
  bool memory_only_ = false;
  bool warned_ = false;
  std::map<std::string, CompiledImage> memory_;
  std::uint64_t memory_bytes_ = 0;
  std::uint64_t disk_bytes_ = 0;  // as of the last scan, plus what was written since
  std::uint64_t num_until_look_ = 0;
};

// The cache of this process (Config: cache_dir, cache_disable); nullptr when disabled.
DiskCache* disk_cache();

// Digest over labelled, length-prefixed fields: schema, package version, NVRTC version, target,
// flags, digest of the source and of everything it includes, name expressions.
std::string cache_key(const CompileRequest& request, const Nvrtc& nvrtc);

}  // namespace gpk::jit
