#include "runtime/dispatch/kernel_cache.h"

#include <algorithm>
#include <cmath>

#include "runtime/dispatch/kernel_cache_hash.h"
#include "runtime/error.h"

namespace gpk::runtime {

CompileOptions& CompileOptions::flag(std::string text) {
  flags.push_back(std::move(text));
  return *this;
}

CompileOptions& CompileOptions::define(const std::string& name, const std::string& value) {
  defines.push_back(value.empty() ? name : name + "=" + value);
  return *this;
}

CompileOptions& CompileOptions::include(std::string path) {
  includes.push_back(std::move(path));
  return *this;
}

double CacheStats::hit_rate() const noexcept {
  const std::uint64_t total = hits + misses;
  return total == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(total);
}

KernelCache::KernelCache(const Clock& clock, CacheConfig config) : clock_(clock), config_(config) {
  if (config.max_entries == 0 || config.max_ptx_size == 0)
    throw Error(Error::Kind::kValue,
                "CacheConfig: max_entries and max_ptx_size must be at least 1, got " +
                    std::to_string(config.max_entries) + " and " +
                    std::to_string(config.max_ptx_size));
  if (!std::isfinite(config.ttl_seconds) || config.ttl_seconds < 0.0)
    throw Error(Error::Kind::kValue,
                "CacheConfig: ttl_seconds must be finite and not negative, got " +
                    std::to_string(config.ttl_seconds));
}

std::uint64_t KernelCache::hash_source(std::string_view source) noexcept {
  return Hasher().add(source).value();
}

std::uint64_t KernelCache::compute_key(std::string_view source, const CompileOptions& options) {
  Hasher hasher;
  hasher.add("source").add(source).add("arch").add(options.compute_capability);
  const auto add_list = [&](std::string_view label, const std::vector<std::string>& items) {
    hasher.add(label).add(std::to_string(items.size()));
    for (const std::string& item : items) hasher.add(item);
  };
  add_list("flags", options.flags);
  add_list("defines", options.defines);
  add_list("includes", options.includes);
  return hasher.value();
}

bool KernelCache::expired(const Entry& entry, std::int64_t now_ns) const {
  return config_.ttl_seconds > 0.0 &&
         static_cast<double>(now_ns - entry.kernel.created_ns) * 1e-9 >= config_.ttl_seconds;
}

void KernelCache::erase(Entries::iterator entry) {
  const CachedKernel& kernel = entry->second.kernel;
  stats_.ptx_size -= kernel.ptx->size();
  if (kernel.is_loaded()) --stats_.loaded_count;
  const auto named = by_name_.find(kernel.name);
  std::erase(named->second, kernel.key);
  if (named->second.empty()) by_name_.erase(named);
  uses_.erase(entry->second.use);
  entries_.erase(entry);
}

std::optional<CachedKernel> KernelCache::look_up(std::uint64_t key) {
  const std::int64_t now_ns = clock_.now_ns();
  const auto found = entries_.find(key);
  if (found != entries_.end() && expired(found->second, now_ns)) {
    erase(found);
    ++stats_.ttl_evictions;
  } else if (found != entries_.end()) {
    ++stats_.hits;
    CachedKernel& kernel = found->second.kernel;
    kernel.last_access_ns = now_ns;
    ++kernel.access_count;
    uses_.splice(uses_.end(), uses_, found->second.use);
    return kernel;
  }
  ++stats_.misses;
  return std::nullopt;
}

std::optional<CachedKernel> KernelCache::get(std::uint64_t key) {
  const std::lock_guard lock(mutex_);
  return look_up(key);
}

std::optional<CachedKernel> KernelCache::get_by_name(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto named = by_name_.find(name);
  if (named != by_name_.end()) return look_up(named->second.back());
  ++stats_.misses;
  return std::nullopt;
}

std::uint64_t KernelCache::insert(std::string_view source, const std::string& name, std::string ptx,
                                  const CompileOptions& options) {
  const std::uint64_t key = compute_key(source, options);
  insert_key(key, name, std::move(ptx), options);
  return key;
}

void KernelCache::insert_key(std::uint64_t key, const std::string& name, std::string ptx,
                             const CompileOptions& options) {
  if (ptx.size() > config_.max_ptx_size)
    throw Error(Error::Kind::kValue, "KernelCache: PTX of '" + name + "' has " +
                                         std::to_string(ptx.size()) + " bytes, the limit is " +
                                         std::to_string(config_.max_ptx_size));
  const std::lock_guard lock(mutex_);
  const auto replaced = entries_.find(key);
  if (replaced != entries_.end()) erase(replaced);
  make_room(ptx.size());
  Entry entry;
  entry.kernel.key = key;
  entry.kernel.name = name;
  entry.kernel.ptx = std::make_shared<const std::string>(std::move(ptx));
  entry.kernel.options = options;
  entry.kernel.created_ns = entry.kernel.last_access_ns = clock_.now_ns();
  stats_.ptx_size += entry.kernel.ptx->size();
  entry.use = uses_.insert(uses_.end(), key);
  by_name_[name].push_back(key);
  entries_.emplace(key, std::move(entry));
}

void KernelCache::make_room(std::size_t ptx_bytes) {
  const auto full = [&] {
    return entries_.size() >= config_.max_entries ||
           stats_.ptx_size > config_.max_ptx_size - ptx_bytes;
  };
  while (full()) {
    if (!config_.enable_eviction)
      throw Error(Error::Kind::kState,
                  "KernelCache: full and eviction is off: " + std::to_string(entries_.size()) +
                      " of " + std::to_string(config_.max_entries) + " entries, " +
                      std::to_string(stats_.ptx_size) + " of " +
                      std::to_string(config_.max_ptx_size) + " bytes");
    erase(entries_.find(uses_.front()));
    ++stats_.evictions;
  }
}

bool KernelCache::set_handles(std::uint64_t key, std::uint64_t module_handle,
                              std::uint64_t function_handle) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  CachedKernel& kernel = found->second.kernel;
  if (kernel.is_loaded()) --stats_.loaded_count;
  kernel.module_handle = module_handle;
  kernel.function_handle = function_handle;
  if (kernel.is_loaded()) ++stats_.loaded_count;
  return true;
}

bool KernelCache::remove(std::uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  erase(found);
  return true;
}

bool KernelCache::contains(std::uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  return found != entries_.end() && !expired(found->second, clock_.now_ns());
}

std::vector<std::string> KernelCache::kernel_names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, keys] : by_name_) names.push_back(name);
  return names;
}

std::size_t KernelCache::clear_expired() {
  const std::lock_guard lock(mutex_);
  const std::int64_t now_ns = clock_.now_ns();
  std::size_t num_expired = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (expired(entry->second, now_ns)) {
      erase(entry);
      ++num_expired;
    }
    entry = next;
  }
  stats_.ttl_evictions += num_expired;
  return num_expired;
}

std::size_t KernelCache::len() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void KernelCache::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  uses_.clear();
  by_name_.clear();
  stats_.ptx_size = 0;
  stats_.loaded_count = 0;
}

CacheStats KernelCache::stats() const {
  const std::lock_guard lock(mutex_);
  CacheStats now = stats_;
  now.entries = entries_.size();
  return now;
}

}  // namespace gpk::runtime
