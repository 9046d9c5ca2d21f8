#include "jit/disk_cache.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/text.h"
#include "core/config.h"
#include "core/log.h"
#include "jit/cache_entry.h"

namespace gpk::jit {
namespace {

constexpr std::uint64_t kDefaultMaxBytes = std::uint64_t{1} << 30;
constexpr std::string_view kEntrySuffix = ".gpkc";
constexpr std::size_t kKeyChars = 64;
// Other processes write too, so the folder is rescanned.
constexpr std::uint64_t kStoresPerLook = 64;
constexpr std::uint64_t kMaxEntryBytes = std::uint64_t{256} << 20;  // larger files are not read
constexpr std::chrono::minutes kTouchAge{1};

bool is_key(std::string_view text) {
  return text.size() == kKeyChars && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string file_name(const std::string& key) { return cat(key, kEntrySuffix); }

bool is_entry_name(std::string_view name) {
  return name.ends_with(kEntrySuffix) && is_key(name.substr(0, name.size() - kEntrySuffix.size()));
}

std::vector<PrivateFolder::File> list_entries(const PrivateFolder& files) {
  std::vector<PrivateFolder::File> entries = files.list();
  std::erase_if(entries, [](const auto& file) { return !is_entry_name(file.name); });
  return entries;
}

std::uint64_t total_bytes(const std::vector<PrivateFolder::File>& entries) {
  std::uint64_t total = 0;
  for (const auto& entry : entries) total += entry.bytes;
  return total;
}

}  // namespace

DiskCache::DiskCache(std::string folder, std::uint64_t max_bytes)
    : files_(std::move(folder)), max_bytes_(max_bytes) {}

std::optional<CompiledImage> DiskCache::load(const std::string& key) {
  if (!is_key(key)) return std::nullopt;
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = memory_.find(key); it != memory_.end()) return it->second;
  }
  const std::string name = file_name(key);
  const std::optional<std::string> bytes = files_.read(name, kMaxEntryBytes);
  if (!bytes) return std::nullopt;
  std::optional<CompiledImage> image = read_entry(key, *bytes);
  if (image) {
    files_.touch(name, kTouchAge);
  } else {
    files_.remove(name);
  }
  return image;
}

void DiskCache::store(const std::string& key, const CompiledImage& image) {
  if (!is_key(key)) return;
  {
    const std::lock_guard lock(mutex_);
    if (memory_only_) return keep_in_memory(key, image, {});
  }
  const std::string bytes = write_entry(key, image);
  if (bytes.size() > std::min(max_bytes_, kMaxEntryBytes)) return;
  const std::string why = files_.write(file_name(key), bytes);
  const std::lock_guard lock(mutex_);
  if (!why.empty()) return keep_in_memory(key, image, why);
  trim_to_cap(bytes.size());
}

// Called with the lock held.
void DiskCache::keep_in_memory(const std::string& key, const CompiledImage& image,
                               const std::string& why) {
  memory_only_ = true;
  if (!warned_ && !why.empty()) {
    warned_ = true;
    log_message(LogLevel::kWarning, cat("the kernel cache is kept in memory only: ", why,
                                        "; set PYGPUKIT_CACHE_DIR to use another folder"));
  }
  if (memory_bytes_ + image.bytes.size() > max_bytes_) return;
  if (memory_.insert_or_assign(key, image).second) memory_bytes_ += image.bytes.size();
}

// Called with the lock held. Trims to a tenth below the cap, so that not every store has to scan.
void DiskCache::trim_to_cap(std::uint64_t added_bytes) {
  disk_bytes_ += added_bytes;
  if (num_until_look_ > 0 && disk_bytes_ <= max_bytes_) {
    --num_until_look_;
    return;
  }
  num_until_look_ = kStoresPerLook;
  files_.remove_stale();
  std::vector<PrivateFolder::File> entries = list_entries(files_);
  disk_bytes_ = total_bytes(entries);
  if (disk_bytes_ <= max_bytes_) return;
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.written < b.written; });
  // The newest entry stays, or a small cap would evict what was just written.
  if (!entries.empty()) entries.pop_back();
  const std::uint64_t goal = max_bytes_ - max_bytes_ / 10;
  for (const auto& entry : entries) {
    if (disk_bytes_ <= goal) break;
    files_.remove(entry.name);
    disk_bytes_ -= entry.bytes;
  }
}

DiskCache::Stat DiskCache::stat() const {
  const std::vector<PrivateFolder::File> entries = list_entries(files_);
  return {entries.size(), total_bytes(entries)};
}

std::uint64_t DiskCache::clear() {
  files_.remove_stale();
  std::uint64_t removed = 0;
  for (const auto& entry : list_entries(files_)) removed += files_.remove(entry.name) ? 1 : 0;
  const std::lock_guard lock(mutex_);
  memory_.clear();
  memory_bytes_ = 0;
  memory_only_ = false;
  num_until_look_ = 0;
  return removed;
}

DiskCache* disk_cache() {
  // Never destroyed: pointers escape. One per folder, for tests that change the configuration.
  static std::mutex mutex;
  static std::vector<std::unique_ptr<DiskCache>>* caches =
      new std::vector<std::unique_ptr<DiskCache>>;
  const Config& config = Config::get();
  if (config.cache_disable) return nullptr;
  const std::lock_guard lock(mutex);
  for (const auto& cache : *caches) {
    if (cache->folder() == config.cache_dir) return cache.get();
  }
  caches->push_back(std::make_unique<DiskCache>(config.cache_dir, kDefaultMaxBytes));
  return caches->back().get();
}

}  // namespace gpk::jit
