#include "runtime/dispatch/kernel_cache_disk.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "runtime/dispatch/kernel_cache_hash.h"
#include "runtime/dispatch/kernel_cache_json.h"
#include "runtime/error.h"
#include "runtime/trace_json.h"

namespace gpk::runtime {
namespace {

constexpr const char* kIndexName = "index.json";
constexpr std::string_view kExtension = ".ptx";
constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;
constexpr std::int64_t kSchema = 1;
constexpr std::size_t kHexDigits = 16;

std::string to_hex(std::uint64_t value) {
  char digits[kHexDigits];
  const auto end = std::to_chars(digits, digits + kHexDigits, value, 16).ptr;
  const std::string text(digits, end);
  return std::string(kHexDigits - text.size(), '0') + text;
}

bool from_hex(const std::string& text, std::uint64_t& value) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value, 16);
  return text.size() == kHexDigits && parsed.ec == std::errc() && parsed.ptr == end;
}

std::array<int, 6> fields(const ArchFingerprint& arch) {
  return {arch.sm_major,     arch.sm_minor,       arch.driver_major,
          arch.driver_minor, arch.compiler_major, arch.compiler_minor};
}

std::string file_of(std::uint64_t key) { return to_hex(key).append(kExtension); }

bool read_arch(const JsonValue* value, ArchFingerprint& arch) {
  if (value == nullptr || value->items.size() != 6) return false;
  int* const parts[] = {&arch.sm_major,     &arch.sm_minor,       &arch.driver_major,
                        &arch.driver_minor, &arch.compiler_major, &arch.compiler_minor};
  for (std::size_t i = 0; i < 6; ++i) {
    if (value->items[i].kind != JsonValue::Kind::kInteger) return false;
    *parts[i] = static_cast<int>(value->items[i].integer);
  }
  return true;
}

bool read_entry(const JsonValue& value, PersistentCacheEntry& entry) {
  const auto text = [&](const char* name) {
    const JsonValue* member = value.find(name);
    return member != nullptr && member->kind == JsonValue::Kind::kString ? &member->text : nullptr;
  };
  const auto number = [&](const char* name, std::int64_t& out) {
    const JsonValue* member = value.find(name);
    if (member == nullptr || member->kind != JsonValue::Kind::kInteger || member->integer < 0)
      return false;
    out = member->integer;
    return true;
  };
  const std::string* const key = text("key");
  const std::string* const name = text("name");
  const std::string* const checksum = text("checksum");
  std::int64_t size = 0;
  std::int64_t count = 0;
  if (key == nullptr || name == nullptr || checksum == nullptr || !from_hex(*key, entry.key) ||
      !from_hex(*checksum, entry.checksum) || !number("size", size) || !number("count", count) ||
      !number("created_ns", entry.created_ns) || !number("accessed_ns", entry.last_access_ns))
    return false;
  entry.name = *name;
  entry.size_bytes = static_cast<std::size_t>(size);
  entry.access_count = static_cast<std::uint64_t>(count);
  return true;
}

}  // namespace

bool ArchFingerprint::is_compatible(const ArchFingerprint& other) const noexcept {
  return sm_major == other.sm_major && sm_minor == other.sm_minor &&
         driver_major == other.driver_major && driver_minor == other.driver_minor;
}

double PersistentCacheStats::hit_rate() const noexcept {
  const std::uint64_t total = hits + misses;
  return total == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(total);
}

PersistentCache::PersistentCache(const Clock& clock, const Folder& folder,
                                 PersistentCacheConfig config, ArchFingerprint arch)
    : clock_(clock), folder_(folder), config_(std::move(config)), arch_(arch) {
  if (config_.cache_dir.empty())
    throw Error(Error::Kind::kValue, "PersistentCacheConfig: cache_dir is empty");
  if (config_.max_entries == 0 || config_.max_size == 0)
    throw Error(Error::Kind::kValue,
                "PersistentCacheConfig: max_entries and max_size must be at least 1");
  if (!std::isfinite(config_.ttl_seconds) || config_.ttl_seconds < 0.0)
    throw Error(Error::Kind::kValue,
                "PersistentCacheConfig: ttl_seconds must be finite and not negative, got " +
                    std::to_string(config_.ttl_seconds));
  if (!load_index()) wipe();
  if (!config_.auto_cleanup) return;
  cleanup();
  remove_orphans();
}

PersistentCache::~PersistentCache() {
  const std::lock_guard lock(mutex_);
  try {
    if (index_is_old_) save_index();
  } catch (...) {  // the times of use are lost
  }
}

// False when there is an index that does not count: corrupt, or of another architecture.
bool PersistentCache::load_index() {
  const auto text = folder_.read(kIndexName, kMaxIndexBytes);
  if (!text) return true;
  const auto index = parse_json(*text);
  if (!index) return false;
  const JsonValue* const schema = index->find("schema");
  const JsonValue* const entries = index->find("entries");
  ArchFingerprint arch;
  if (schema == nullptr || schema->integer != kSchema || entries == nullptr ||
      entries->kind != JsonValue::Kind::kArray || !read_arch(index->find("arch"), arch) ||
      !arch.is_compatible(arch_))
    return false;
  Entries loaded;
  for (const JsonValue& value : entries->items) {
    PersistentCacheEntry entry;
    if (!read_entry(value, entry)) return false;
    loaded[entry.key] = std::move(entry);
  }
  entries_ = std::move(loaded);
  for (const auto& [key, entry] : entries_) stats_.total_size += entry.size_bytes;
  return true;
}

void PersistentCache::save_index() {
  std::string text = R"({"schema":)" + std::to_string(kSchema) + R"(,"arch":[)";
  const char* separator = "";
  for (const int part : fields(arch_)) {
    text += separator + std::to_string(part);
    separator = ",";
  }
  text += R"(],"entries":[)";
  separator = "\n";
  for (const auto& [key, entry] : entries_) {
    text += separator;
    text += R"({"key":")" + to_hex(key) + R"(","name":)";
    append_json_string(text, entry.name);
    text += R"(,"size":)" + std::to_string(entry.size_bytes) + R"(,"checksum":")" +
            to_hex(entry.checksum) + R"(","created_ns":)" + std::to_string(entry.created_ns) +
            R"(,"accessed_ns":)" + std::to_string(entry.last_access_ns) + R"(,"count":)" +
            std::to_string(entry.access_count) + "}";
    separator = ",\n";
  }
  text += "\n]}\n";
  if (write_file(kIndexName, text)) index_is_old_ = false;
}

bool PersistentCache::write_file(const std::string& name, const std::string& bytes) {
  if (folder_.write(name, bytes).empty()) return true;
  ++stats_.write_failures;
  return false;
}

// Removes files of a cache that the entries do not name, and nothing else: what a process left that
// did not come to write its index.
void PersistentCache::remove_orphans() {
  for (const Folder::File& file : folder_.list()) {
    std::uint64_t key = 0;
    if (file.name.ends_with(kExtension) &&
        from_hex(file.name.substr(0, file.name.size() - kExtension.size()), key) &&
        !entries_.contains(key))
      folder_.remove(file.name);
  }
}

void PersistentCache::wipe() {
  entries_.clear();
  stats_.total_size = 0;
  folder_.remove(kIndexName);
  remove_orphans();
}

bool PersistentCache::expired(const PersistentCacheEntry& entry) const {
  return config_.ttl_seconds > 0.0 &&
         static_cast<double>(clock_.now_ns() - entry.created_ns) * 1e-9 >= config_.ttl_seconds;
}

void PersistentCache::erase(Entries::iterator entry) {
  folder_.remove(file_of(entry->first));
  stats_.total_size -= entry->second.size_bytes;
  entries_.erase(entry);
  index_is_old_ = true;
}

std::optional<std::string> PersistentCache::get(std::uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found != entries_.end() && expired(found->second)) {
    ++stats_.ttl_evictions;
    erase(found);
  } else if (found != entries_.end()) {
    PersistentCacheEntry& entry = found->second;
    auto bytes = folder_.read(file_of(key), std::min(entry.size_bytes, config_.max_size));
    if (bytes && bytes->size() == entry.size_bytes &&
        Hasher().add(*bytes).value() == entry.checksum) {
      ++stats_.hits;
      ++entry.access_count;
      entry.last_access_ns = clock_.now_ns();
      index_is_old_ = true;
      return bytes;
    }
    ++stats_.corrupt;
    erase(found);
  }
  ++stats_.misses;
  return std::nullopt;
}

bool PersistentCache::insert(std::uint64_t key, const std::string& name, const std::string& bytes) {
  if (bytes.size() > config_.max_size) return false;
  const std::lock_guard lock(mutex_);
  const auto replaced = entries_.find(key);
  if (replaced != entries_.end()) erase(replaced);
  if (config_.auto_cleanup) evict_for(bytes.size(), 1);
  if (entries_.size() >= config_.max_entries || stats_.total_size > config_.max_size - bytes.size())
    return false;
  if (!write_file(file_of(key), bytes)) return false;
  PersistentCacheEntry entry;
  entry.key = key;
  entry.name = name;
  entry.size_bytes = bytes.size();
  entry.checksum = Hasher().add(bytes).value();
  entry.created_ns = entry.last_access_ns = clock_.now_ns();
  entries_[key] = std::move(entry);
  stats_.total_size += bytes.size();
  save_index();
  return true;
}

void PersistentCache::evict_for(std::size_t new_bytes, std::size_t new_entries) {
  while (!entries_.empty() && (entries_.size() + new_entries > config_.max_entries ||
                               stats_.total_size + new_bytes > config_.max_size)) {
    const auto oldest =
        std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
          return a.second.last_access_ns < b.second.last_access_ns;
        });
    erase(oldest);
    ++stats_.evictions;
  }
}

bool PersistentCache::remove(std::uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  erase(found);
  save_index();
  return true;
}

bool PersistentCache::contains(std::uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  return found != entries_.end() && !expired(found->second);
}

std::optional<PersistentCacheEntry> PersistentCache::get_entry(std::uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  return found->second;
}

std::vector<PersistentCacheEntry> PersistentCache::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<PersistentCacheEntry> result;
  for (const auto& [key, entry] : entries_) result.push_back(entry);
  return result;
}

std::size_t PersistentCache::cleanup() {
  const std::lock_guard lock(mutex_);
  const std::size_t before = entries_.size();
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (expired(entry->second)) {
      erase(entry);
      ++stats_.ttl_evictions;
    }
    entry = next;
  }
  evict_for(0, 0);
  if (entries_.size() != before) save_index();
  return before - entries_.size();
}

void PersistentCache::clear() {
  const std::lock_guard lock(mutex_);
  wipe();
  index_is_old_ = false;
}

std::size_t PersistentCache::len() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

PersistentCacheStats PersistentCache::stats() const {
  const std::lock_guard lock(mutex_);
  PersistentCacheStats now = stats_;
  now.entries = entries_.size();
  return now;
}

}  // namespace gpk::runtime
