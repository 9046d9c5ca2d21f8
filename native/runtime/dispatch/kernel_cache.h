// Compiled kernels in memory by key: least recently used first out, optional expiry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/clock.h"

namespace gpk::runtime {

struct CompileOptions {
  std::string compute_capability = "sm_75";
  std::vector<std::string> flags;
  std::vector<std::string> defines;  // NAME or NAME=VALUE
  std::vector<std::string> includes;

  CompileOptions& flag(std::string text);
  CompileOptions& define(const std::string& name, const std::string& value = "");
  CompileOptions& include(std::string path);
};

struct CacheConfig {
  std::size_t max_entries = 1024;
  std::size_t max_ptx_size = std::size_t{256} << 20;  // bytes of all entries together
  bool enable_eviction = true;
  double ttl_seconds = 0.0;  // since insertion; 0: no expiry
};

struct CachedKernel {
  std::uint64_t key = 0;
  std::string name;
  std::shared_ptr<const std::string> ptx;
  CompileOptions options;
  std::uint64_t module_handle = 0;  // 0: not loaded
  std::uint64_t function_handle = 0;
  std::int64_t created_ns = 0;
  std::int64_t last_access_ns = 0;
  std::uint64_t access_count = 0;
  [[nodiscard]] bool is_loaded() const noexcept { return function_handle != 0; }
};

struct CacheStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::size_t entries = 0;
  std::size_t ptx_size = 0;
  std::uint64_t evictions = 0;
  std::uint64_t ttl_evictions = 0;
  std::size_t loaded_count = 0;
  [[nodiscard]] double hit_rate() const noexcept;  // 0 before the first look-up
};

// Thread safe.
class KernelCache {
 public:
  // kValue when a limit is 0 or the time is not finite or negative. `clock` outlives the cache.
  explicit KernelCache(const Clock& clock, CacheConfig config = {});

  // The same for the same inputs, on every machine.
  [[nodiscard]] static std::uint64_t hash_source(std::string_view source) noexcept;
  [[nodiscard]] static std::uint64_t compute_key(std::string_view source,
                                                 const CompileOptions& options);

  // These two count a hit or a miss and make the entry the most recently used one.
  std::optional<CachedKernel> get(std::uint64_t key);
  std::optional<CachedKernel> get_by_name(std::string_view name);  // the one inserted last

  // Replaces an entry of the same key; returns the key. kValue when `ptx` alone is above the limit;
  // kState when there is no room and eviction is off.
  std::uint64_t insert(std::string_view source, const std::string& name, std::string ptx,
                       const CompileOptions& options = {});
  void insert_key(std::uint64_t key, const std::string& name, std::string ptx,
                  const CompileOptions& options = {});

  bool set_handles(std::uint64_t key, std::uint64_t module_handle, std::uint64_t function_handle);
  bool remove(std::uint64_t key);
  [[nodiscard]] bool contains(std::uint64_t key) const;         // not expired
  [[nodiscard]] std::vector<std::string> kernel_names() const;  // sorted, each once
  std::size_t clear_expired();                                  // how many
  [[nodiscard]] std::size_t len() const;
  [[nodiscard]] bool is_empty() const { return len() == 0; }
  void clear();  // the entries; the counters stay
  [[nodiscard]] CacheStats stats() const;
  [[nodiscard]] const CacheConfig& config() const noexcept { return config_; }

 private:
  struct Entry {
    CachedKernel kernel;
    std::list<std::uint64_t>::iterator use;  // in uses_
  };
  using Entries = std::map<std::uint64_t, Entry>;

  [[nodiscard]] bool expired(const Entry& entry, std::int64_t now_ns) const;
  void erase(Entries::iterator entry);
  void make_room(std::size_t ptx_bytes);
  std::optional<CachedKernel> look_up(std::uint64_t key);

  const Clock& clock_;
  const CacheConfig config_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::list<std::uint64_t> uses_;  // least recently used first
  std::map<std::string, std::vector<std::uint64_t>, std::less<>> by_name_;  // in insertion order
  CacheStats stats_;
};

}  // namespace gpk::runtime
