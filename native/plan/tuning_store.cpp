#include "plan/tuning_store.h"

#include <charconv>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "core/config.h"
#include "core/log.h"
#include "core/private_folder.h"
#include "jit/digest.h"

namespace gpk::plan {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{16} << 20;  // 100,000 choices

PrivateFolder folder_of(const fs::path& path) {
  return PrivateFolder(path.has_parent_path() ? path.parent_path().string() : ".");
}

std::string header(std::string_view family, std::string_view body) {
  return cat("pygpukit-", family, "-tuning 1 ", GPK_VERSION, " ", jit::sha256_hex(body));
}

bool read_number(std::string_view& rest, double& out) {
  const std::string_view field = next_field(rest, ' ');
  const auto [end, problem] = std::from_chars(field.data(), field.data() + field.size(), out);
  return problem == std::errc() && end == field.data() + field.size();
}

}  // namespace

std::string_view next_field(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view field = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return field;
}

TuningStore::TuningStore(std::string family, bool (*is_plan)(std::string_view text))
    : family_(std::move(family)), is_plan_(is_plan) {}

std::string TuningStore::path() const {
  const Config& config = Config::get();
  if (config.cache_disable || config.cache_dir.empty()) return {};
  return (fs::path(config.cache_dir) / cat(family_, ".tune")).string();
}

TuningTable TuningStore::read_file(const std::string& path) const {
  const auto text = folder_of(path).read(fs::path(path).filename().string(), kMaxFileBytes);
  if (!text) return {};
  std::string_view body = *text;
  const std::string_view first = next_field(body, '\n');
  if (first != header(family_, body)) return {};
  TuningTable table;
  while (!body.empty()) {  // key TAB plan TAB us native_us
    std::string_view line = next_field(body, '\n');
    const std::string_view key = next_field(line, '\t');
    TunedText tuned{std::string(next_field(line, '\t'))};
    if (key.empty() || !is_plan_(tuned.plan) || !read_number(line, tuned.us) ||
        !read_number(line, tuned.native_us) || !line.empty())
      return {};
    table.insert_or_assign(std::string(key), std::move(tuned));
  }
  return table;
}

std::string TuningStore::write_file(const std::string& path, const TuningTable& table) const {
  std::string body;
  for (const auto& [key, tuned] : table)
    body += cat(key, "\t", tuned.plan, "\t", tuned.us, " ", tuned.native_us, "\n");
  const std::string text = cat(header(family_, body), "\n", body);
  if (text.size() > kMaxFileBytes) return cat(path, " would exceed the size limit of the file");
  return folder_of(path).write(fs::path(path).filename().string(), text);
}

void TuningStore::load_once() {
  const std::string now = path();
  if (loaded_ && loaded_from_ == now) return;
  table_ = now.empty() ? TuningTable{} : read_file(now);
  loaded_from_ = now;
  loaded_ = true;
}

bool TuningStore::empty() {
  const std::lock_guard lock(mutex_);
  load_once();
  return table_.empty();
}

std::optional<TunedText> TuningStore::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  load_once();
  const auto found = table_.find(key);
  return found == table_.end() ? std::nullopt : std::optional(found->second);
}

void TuningStore::store(const std::string& key, const TunedText& tuned) {
  const std::lock_guard lock(mutex_);
  load_once();
  table_.insert_or_assign(key, tuned);
  if (loaded_from_.empty()) return;
  TuningTable all = read_file(loaded_from_);
  for (const auto& [mine, choice] : table_) all.insert_or_assign(mine, choice);
  if (const std::string why = write_file(loaded_from_, all); !why.empty())
    log_message(LogLevel::kWarning, cat(family_, ": measured choices are not kept on disk: ", why));
}

std::size_t TuningStore::clear(bool file) {
  const std::lock_guard lock(mutex_);
  load_once();
  const std::size_t count = table_.size();
  table_.clear();
  if (file && !loaded_from_.empty())
    folder_of(loaded_from_).remove(fs::path(loaded_from_).filename().string());
  return count;
}

}  // namespace gpk::plan
