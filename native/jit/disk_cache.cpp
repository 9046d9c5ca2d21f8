#include "jit/disk_cache.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "core/config.h"
#include "core/log.h"
#include "core/text.h"
#include "jit/cache_entry.h"

namespace gpk::jit {
namespace {

namespace fs = std::filesystem;
using std::chrono::minutes;

constexpr std::uint64_t kDefaultMaxBytes = std::uint64_t{1} << 30;
constexpr std::string_view kEntrySuffix = ".gpkc";
constexpr std::string_view kTempSuffix = ".gpkc-tmp";
constexpr std::size_t kKeyChars = 64;
constexpr std::uint64_t kStoresPerLook = 64;  // other processes write too
constexpr minutes kTouchAge{1};
constexpr minutes kStaleTempAge{60};

bool is_key(std::string_view text) {
  return text.size() == kKeyChars && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

fs::path entry_path(const std::string& folder, const std::string& key) {
  return fs::path(folder) / cat(key, kEntrySuffix);
}

bool is_entry_name(std::string_view name) {
  return name.ends_with(kEntrySuffix) && is_key(name.substr(0, name.size() - kEntrySuffix.size()));
}

// Process ids repeat between containers that share a folder, so the name is random instead. The
// engine is per call: a forked child must not repeat its parent's names.
fs::path temp_path(const std::string& folder, const std::string& key) {
  static std::atomic<unsigned> counter{0};
  std::random_device random;
  return fs::path(folder) /
         cat(key, "-", random(), "-", random(), "-", counter.fetch_add(1), kTempSuffix);
}

struct Entry {
  fs::path path;
  std::uint64_t bytes = 0;
  fs::file_time_type used;
};

// Entries of a folder; temporary files that a killed process left behind are removed on the way.
std::vector<Entry> list_entries(const std::string& folder, bool remove_stale) {
  std::vector<Entry> out;
  std::error_code ec;
  for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    const std::string name = it->path().filename().string();
    std::error_code gone;  // by another process
    const fs::file_time_type used = fs::last_write_time(it->path(), gone);
    if (gone) continue;
    if (is_entry_name(name)) {
      const std::uint64_t bytes = fs::file_size(it->path(), gone);
      if (!gone) out.push_back({it->path(), bytes, used});
    } else if (remove_stale && name.ends_with(kTempSuffix) &&
               fs::file_time_type::clock::now() - used > kStaleTempAge) {
      fs::remove(it->path(), gone);
    }
  }
  return out;
}

std::uint64_t total_bytes(const std::vector<Entry>& entries) {
  std::uint64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  return total;
}

std::optional<std::string> read_file(const fs::path& path) {
  std::error_code ec;
  if (!fs::is_regular_file(path, ec)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) return std::nullopt;
  return bytes;
}

// The reason for failure; empty on success. A short write (disk full) never gets the entry's name.
std::string write_file(const std::string& folder, const std::string& key,
                       const std::string& bytes) {
  std::error_code ec;
  if (folder.empty()) return "no folder is set";
  fs::create_directories(folder, ec);
  if (!fs::is_directory(folder, ec)) return cat("cannot make ", folder);
  const fs::path temp = temp_path(folder, key);
  std::ofstream file(temp, std::ios::binary | std::ios::trunc);
  if (!file) return cat("cannot write in ", folder);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    fs::remove(temp, ec);
    return cat("cannot write ", bytes.size(), " bytes in ", folder);
  }
  fs::rename(temp, entry_path(folder, key), ec);
  if (!ec) return {};
  const std::string why = cat("cannot rename in ", folder, ": ", ec.message());
  fs::remove(temp, ec);
  return why;
}

}  // namespace

DiskCache::DiskCache(std::string folder, std::uint64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {}

std::optional<CompiledImage> DiskCache::load(const std::string& key) {
  if (!is_key(key)) return std::nullopt;
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = memory_.find(key); it != memory_.end()) return it->second;
  }
  const fs::path path = entry_path(folder_, key);
  const std::optional<std::string> bytes = read_file(path);
  if (!bytes) return std::nullopt;
  std::optional<CompiledImage> image = read_entry(key, *bytes);
  std::error_code ec;
  if (!image) {
    fs::remove(path, ec);
    return std::nullopt;
  }
  const fs::file_time_type now = fs::file_time_type::clock::now();
  const fs::file_time_type used = fs::last_write_time(path, ec);
  if (!ec && now - used > kTouchAge) fs::last_write_time(path, now, ec);
  return image;
}

void DiskCache::store(const std::string& key, const CompiledImage& image) {
  if (!is_key(key)) return;
  {
    const std::lock_guard lock(mutex_);
    if (memory_only_) return keep_in_memory(key, image, {});
  }
  const std::string bytes = write_entry(key, image);
  if (bytes.size() > max_bytes_) return;
  std::string why;
  try {
    why = write_file(folder_, key, bytes);
  } catch (const std::exception& e) {  // std::random_device, path conversion
    why = e.what();
  }
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
    log_message(LogLevel::kWarning, cat("the kernel cache is kept in memory only: ", why));
  }
  if (memory_bytes_ + image.bytes.size() > max_bytes_) return;
  if (memory_.insert_or_assign(key, image).second) memory_bytes_ += image.bytes.size();
}

// Called with the lock held. Goes below the cap by a tenth, so that not every store has to look.
void DiskCache::trim_to_cap(std::uint64_t added_bytes) {
  disk_bytes_ += added_bytes;
  if (num_until_look_ > 0 && disk_bytes_ <= max_bytes_) {
    --num_until_look_;
    return;
  }
  num_until_look_ = kStoresPerLook;
  std::vector<Entry> entries = list_entries(folder_, true);
  disk_bytes_ = total_bytes(entries);
  if (disk_bytes_ <= max_bytes_) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  // The newest entry stays, or a small cap would throw out what was just written.
  if (!entries.empty()) entries.pop_back();
  const std::uint64_t goal = max_bytes_ - max_bytes_ / 10;
  for (const Entry& entry : entries) {
    if (disk_bytes_ <= goal) break;
    std::error_code ec;
    fs::remove(entry.path, ec);
    disk_bytes_ -= entry.bytes;
  }
}

DiskCache::Stat DiskCache::stat() const {
  const std::vector<Entry> entries = list_entries(folder_, false);
  return {entries.size(), total_bytes(entries)};
}

std::uint64_t DiskCache::clear() {
  std::uint64_t removed = 0;
  for (const Entry& entry : list_entries(folder_, true)) {
    std::error_code ec;
    removed += fs::remove(entry.path, ec) && !ec ? 1 : 0;
  }
  const std::lock_guard lock(mutex_);
  memory_.clear();
  memory_bytes_ = 0;
  memory_only_ = false;
  num_until_look_ = 0;
  return removed;
}

DiskCache* disk_cache() {
  // Kept for good: pointers are handed out. One per folder, for tests that change the
  // configuration.
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
