#include "llm/weight_set.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/file_error.h"
#include "base/json.h"
#include "base/text.h"

namespace gpk::llm {
namespace {

constexpr std::size_t kMaxListed = 8;

// "'a', 'b' and 3 more".
std::string list_of(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxListed); ++i)
    shown.push_back(quoted_name(names[i]));
  std::string text = join(shown, ", ");
  if (names.size() > kMaxListed) text += cat(" and ", names.size() - kMaxListed, " more");
  return text;
}

[[noreturn]] void throw_bad_index(const std::string& path, const std::string& problem) {
  throw InvalidArgument(cat("safetensors: ", path, ": ", problem));
}

Json read_index(const std::string& path) {
  const WeightFile file(path);
  if (file.size_bytes() > kSafeTensorsMaxHeaderBytes)
    throw_bad_index(path, cat("the index has ", file.size_bytes(), " bytes, expected at most ",
                              kSafeTensorsMaxHeaderBytes));
  std::string text(static_cast<std::size_t>(file.size_bytes()), '\0');
  file.read(0, text.data(), text.size());
  return parse_json(text, cat("safetensors: ", path));
}

std::string shard_path(const std::string& index, const std::string& tensor,
                       const std::string& shard) {
  const std::filesystem::path relative(shard);
  const bool leaves =
      relative.is_absolute() || relative.has_root_path() || shard.find('\\') != std::string::npos ||
      shard.find('\0') != std::string::npos ||
      std::any_of(relative.begin(), relative.end(), [](const auto& part) { return part == ".."; });
  if (shard.empty() || leaves)
    throw_bad_index(index, cat("tensor ", quoted_name(tensor), " is in ", quoted_name(shard),
                               ", expected a file inside the index's folder"));
  return (std::filesystem::path(index).parent_path() / relative).string();
}

}  // namespace

std::shared_ptr<WeightSet> WeightSet::open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const std::filesystem::path folder(path);
    for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
      if (std::filesystem::exists(folder / name, ignored)) return open((folder / name).string());
    throw FileError("safetensors", ENOENT, (folder / "model.safetensors").string());
  }
  return path.ends_with(".index.json") ? open_index(path) : open_file(path);
}

std::shared_ptr<WeightSet> WeightSet::open_file(const std::string& path) {
  std::shared_ptr<WeightSet> set(new WeightSet(path));
  auto file = std::make_unique<const SafeTensorsFile>(path);
  for (const TensorInfo& tensor : file->tensors()) set->names_.push_back(tensor.name);
  set->shard_by_name_.assign(set->names_.size(), 0);
  set->shards_.push_back({path, {}, std::move(file)});
  set->index_names();
  return set;
}

std::shared_ptr<WeightSet> WeightSet::open_index(const std::string& path) {
  std::shared_ptr<WeightSet> set(new WeightSet(path));
  const Json index = read_index(path);
  const Json* map = index.find("weight_map");
  if (map == nullptr || map->members() == nullptr)
    throw_bad_index(path, "expected an object with a member weight_map, an object of strings");
  std::unordered_map<std::string, std::size_t> shards;  // by path
  for (const auto& [name, shard] : *map->members()) {
    if (shard.string() == nullptr)
      throw_bad_index(path, cat("tensor ", quoted_name(name), " is in ", to_string(shard.kind()),
                                ", expected the name of a file"));
    std::string where = shard_path(path, name, *shard.string());
    const auto [found, is_new] = shards.emplace(where, set->shards_.size());
    if (is_new) set->shards_.push_back({std::move(where), {}, nullptr});
    set->shards_[found->second].expected.push_back(name);
    set->names_.push_back(name);
    set->shard_by_name_.push_back(found->second);
  }
  set->index_names();
  return set;
}

void WeightSet::index_names() {
  by_name_.reserve(names_.size());
  for (std::size_t i = 0; i < names_.size(); ++i) by_name_.emplace(names_[i], i);
}

std::vector<std::string> WeightSet::files() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (const Shard& shard : shards_) paths.push_back(shard.path);
  return paths;
}

std::size_t WeightSet::shard_of(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end())
    throw InvalidArgument(cat("safetensors: ", path_, " has no tensor ", quoted_name(name)));
  return shard_by_name_[found->second];
}

const SafeTensorsFile& WeightSet::opened(std::size_t number) const {
  const std::lock_guard lock(mutex_);
  Shard& shard = shards_[number];
  if (shard.file) return *shard.file;
  auto file = std::make_unique<const SafeTensorsFile>(shard.path);
  std::vector<std::string> missing;
  for (const std::string& name : shard.expected)
    if (file->find(name) == nullptr) missing.push_back(name);
  if (!missing.empty())
    throw InvalidArgument(cat("safetensors: ", shard.path, " has no tensor ", list_of(missing),
                              ", expected by ", path_));
  shard.file = std::move(file);
  return *shard.file;
}

const SafeTensorsFile& WeightSet::file_of(std::string_view name) const {
  return opened(shard_of(name));
}

const TensorInfo& WeightSet::info(std::string_view name) const { return *file_of(name).find(name); }

std::uint64_t WeightSet::file_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < shards_.size(); ++i) bytes += opened(i).file().size_bytes();
  return bytes;
}

std::map<std::string, std::string> WeightSet::metadata() const {
  std::map<std::string, std::string> all;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto& metadata = opened(i).metadata();
    all.insert(metadata.begin(), metadata.end());
  }
  return all;
}

void WeightSet::verify() const {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    std::vector<std::string> extra;
    std::vector<std::string> elsewhere;
    for (const TensorInfo& tensor : opened(i).tensors()) {
      if (!contains(tensor.name))
        extra.push_back(tensor.name);
      else if (shard_of(tensor.name) != i)
        elsewhere.push_back(tensor.name);
    }
    if (!elsewhere.empty())
      throw InvalidArgument(cat("safetensors: ", files()[i], " has ", list_of(elsewhere),
                                ", which ", path_, " has in another file"));
    if (!extra.empty())
      throw InvalidArgument(cat("safetensors: ", files()[i], " has ", list_of(extra), ", which ",
                                path_, " does not have"));
  }
}

void WeightSet::check_names(std::span<const std::string> expected) const {
  std::vector<std::string> missing;
  std::unordered_set<std::string_view> known;
  for (const std::string& name : expected) {
    known.insert(name);
    if (!contains(name)) missing.push_back(name);
  }
  std::vector<std::string> extra;
  for (const std::string& name : names_)
    if (!known.contains(name)) extra.push_back(name);
  if (missing.empty() && extra.empty()) return;
  std::vector<std::string> problems;
  if (!missing.empty()) problems.push_back(cat("missing ", list_of(missing)));
  if (!extra.empty()) problems.push_back(cat("unexpected ", list_of(extra)));
  throw InvalidArgument(cat("safetensors: ", path_, ": ", join(problems, "; ")));
}

std::map<std::string, Array> WeightSet::load(std::span<const std::string> names, Device device,
                                             const LoadOptions& options) const {
  struct Wanted {
    std::size_t shard;
    WeightSource source;
  };
  std::vector<Wanted> wanted;
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) continue;
    const std::size_t shard = shard_of(name);
    const SafeTensorsFile& file = opened(shard);
    wanted.push_back({shard, {&file.file(), file.find(name)}});
  }
  std::sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
    return std::pair(a.shard, a.source.tensor->offset) <
           std::pair(b.shard, b.source.tensor->offset);
  });
  std::vector<WeightSource> sources;
  for (const Wanted& each : wanted) sources.push_back(each.source);
  return load_weights(sources, device, options);
}

Array WeightSet::load_one(const std::string& name, Device device,
                          const LoadOptions& options) const {
  return load({&name, 1}, device, options).at(name);
}

}  // namespace gpk::llm
