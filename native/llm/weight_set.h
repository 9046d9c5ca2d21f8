// The weights of a model: the tensors of one SafeTensors file, or of an index with its shards.
//
//   const auto weights = WeightSet::open("model/");
//   const auto arrays = weights->load(weights->names(), device, {.dtype = DType::kBFloat16});
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/array.h"
#include "llm/safetensors_file.h"
#include "llm/weight_loader.h"

namespace gpk::llm {

// Thread safe.
class WeightSet {
 public:
  // "x.index.json", a SafeTensors file, or a folder with model.safetensors or
  // model.safetensors.index.json. Throws FileError, InvalidArgument.
  static std::shared_ptr<WeightSet> open(const std::string& path);
  static std::shared_ptr<WeightSet> open_file(const std::string& path);
  // Shards are opened when one of their tensors is asked for. Their names are relative to the
  // index's folder and stay inside it ("..", absolute paths: InvalidArgument); links are followed,
  // since model caches are made of them.
  static std::shared_ptr<WeightSet> open_index(const std::string& path);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // By offset in a file, in the order of an index.
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  [[nodiscard]] bool contains(std::string_view name) const { return by_name_.contains(name); }
  [[nodiscard]] std::vector<std::string> files() const;

  // Throw InvalidArgument for a name that is not there, and what opening its shard throws: a shard
  // without a tensor that the index says it has is refused.
  [[nodiscard]] const TensorInfo& info(std::string_view name) const;
  [[nodiscard]] const SafeTensorsFile& file_of(std::string_view name) const;
  // These open every shard.
  [[nodiscard]] std::uint64_t file_bytes() const;
  [[nodiscard]] std::map<std::string, std::string> metadata() const;  // the first shard's wins
  // Throws InvalidArgument where a shard has a tensor that the index does not have, or has
  // elsewhere.
  void verify() const;
  // Throws InvalidArgument that names what is missing and what is left over.
  void check_names(std::span<const std::string> expected) const;

  // See weight_loader.h. In the order of the files, whatever the order of the names.
  [[nodiscard]] std::map<std::string, Array> load(std::span<const std::string> names, Device device,
                                                  const LoadOptions& options = {}) const;
  [[nodiscard]] Array load_one(const std::string& name, Device device,
                               const LoadOptions& options = {}) const;

 private:
  struct Shard {
    std::string path;
    std::vector<std::string> expected;  // tensors that the index says it has
    std::unique_ptr<const SafeTensorsFile> file;
  };

  explicit WeightSet(std::string path) : path_(std::move(path)) {}
  void index_names();
  std::size_t shard_of(std::string_view name) const;
  const SafeTensorsFile& opened(std::size_t shard) const;

  std::string path_;
  std::vector<std::string> names_;
  std::vector<std::size_t> shard_by_name_;  // as names_
  std::unordered_map<std::string_view, std::size_t> by_name_;
  mutable std::mutex mutex_;
  mutable std::vector<Shard> shards_;
};

}  // namespace gpk::llm
