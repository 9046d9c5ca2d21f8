// Compiled kernels in a folder: one file each and a JSON index.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/folder.h"

namespace gpk::runtime {

// Nanoseconds since 1970: times in the index mean the same in every process.
class WallClock final : public Clock {
 public:
  [[nodiscard]] std::int64_t now_ns() const noexcept override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

// What compiled code depends on.
struct ArchFingerprint {
  int sm_major = 0;
  int sm_minor = 0;
  int driver_major = 0;
  int driver_minor = 0;
  int compiler_major = 0;
  int compiler_minor = 0;
  // The same SM and driver.
  [[nodiscard]] bool is_compatible(const ArchFingerprint& other) const noexcept;
};

struct PersistentCacheConfig {
  std::filesystem::path cache_dir;
  std::size_t max_size = std::size_t{512} << 20;  // bytes of all files together
  std::size_t max_entries = 1000;
  bool auto_cleanup = true;  // evict the least recently used; off: a full cache takes nothing more
  double ttl_seconds = 0.0;  // since insertion; 0: no expiry
};

struct PersistentCacheEntry {
  std::uint64_t key = 0;
  std::string name;
  std::size_t size_bytes = 0;
  std::uint64_t checksum = 0;
  std::int64_t created_ns = 0;
  std::int64_t last_access_ns = 0;
  std::uint64_t access_count = 0;
};

struct PersistentCacheStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::size_t entries = 0;
  std::size_t total_size = 0;
  std::uint64_t evictions = 0;
  std::uint64_t ttl_evictions = 0;
  std::uint64_t corrupt = 0;                       // files that were not what the index says
  std::uint64_t write_failures = 0;                // entries or indexes that could not be written
  [[nodiscard]] double hit_rate() const noexcept;  // 0 before the first look-up
};

// Thread safe. Trouble with files is never an error: what cannot be read is a miss, what cannot be
// written is not there. Files and the index are replaced by renaming, so that a reader sees one or
// the other; a second process on the same folder may lose entries, it never reads wrong ones. A
// corrupt index is an empty cache, and one for another architecture too: the files go.
class PersistentCache {
 public:
  // kValue for an empty cache_dir, a limit of 0, or a time that is not finite or negative. `clock`
  // (a WallClock outside tests) and `folder`, that of cache_dir, outlive the cache.
  PersistentCache(const Clock& clock, const Folder& folder, PersistentCacheConfig config,
                  ArchFingerprint arch);
  ~PersistentCache();  // writes the times of use
  PersistentCache(const PersistentCache&) = delete;
  PersistentCache& operator=(const PersistentCache&) = delete;

  // The stored bytes, checked against the index. Counts a hit or a miss.
  std::optional<std::string> get(std::uint64_t key);
  // False when it was not stored: too large, full without cleanup, or not writable.
  bool insert(std::uint64_t key, const std::string& name, const std::string& bytes);
  bool remove(std::uint64_t key);
  [[nodiscard]] bool contains(std::uint64_t key) const;  // not expired
  [[nodiscard]] std::optional<PersistentCacheEntry> get_entry(std::uint64_t key) const;
  [[nodiscard]] std::vector<PersistentCacheEntry> entries() const;  // by key
  std::size_t cleanup();  // drops expired entries, then what is over the limits; how many
  void clear();           // drops everything
  [[nodiscard]] std::size_t len() const;
  [[nodiscard]] PersistentCacheStats stats() const;
  [[nodiscard]] const PersistentCacheConfig& config() const noexcept { return config_; }
  [[nodiscard]] const ArchFingerprint& arch() const noexcept { return arch_; }

 private:
  using Entries = std::map<std::uint64_t, PersistentCacheEntry>;

  bool load_index();
  void save_index();
  void wipe();
  void remove_orphans();
  [[nodiscard]] bool expired(const PersistentCacheEntry& entry) const;
  void erase(Entries::iterator entry);
  void evict_for(std::size_t new_bytes, std::size_t new_entries);
  bool write_file(const std::string& name, const std::string& bytes);

  const Clock& clock_;
  const Folder& folder_;
  const PersistentCacheConfig config_;
  const ArchFingerprint arch_;
  mutable std::mutex mutex_;
  Entries entries_;
  bool index_is_old_ = false;
  PersistentCacheStats stats_;
};

}  // namespace gpk::runtime
