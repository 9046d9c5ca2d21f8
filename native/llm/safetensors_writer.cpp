#include "llm/safetensors_writer.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file_error.h"
#include "base/text.h"
#include "base/trace_json.h"
#include "base/utf8.h"
#include "core/graph.h"
#include "device/host_copy.h"
#include "llm/safetensors_header.h"
#include "ops/elementwise/copy.h"

#ifndef _WIN32
#include <unistd.h>
#endif

namespace gpk::llm {
namespace {

constexpr const char* kOp = "save_safetensors";
constexpr std::size_t kChunkBytes = std::size_t{16} << 20;

struct Entry {
  const std::string* name;
  const Array* array;
  const StoredType* type;
};

void check_text(const std::string& text, const char* what) {
  if (utf8_prefix(text) < text.size())
    throw InvalidArgument(cat(kOp, ": a ", what, " is not UTF-8"));
}

// Checked, in the order in which they are written.
std::vector<Entry> arrange(const std::vector<std::pair<std::string, Array>>& tensors) {
  std::vector<Entry> entries;
  for (const auto& [name, array] : tensors) {
    check_text(name, "name");
    const std::string shown = quoted_name(name);
    if (name == "__metadata__")
      throw InvalidArgument(cat(kOp, ": a tensor is named ", shown, ", which is reserved"));
    const StoredType& type = stored_type_of(array.dtype(), cat(kOp, ": ", shown));
    if (array.size() * type.bits % 8 != 0)
      throw InvalidArgument(cat(kOp, ": ", shown, " has ", array.size(), " elements of ", type.bits,
                                " bits, expected whole bytes"));
    entries.push_back({&name, &array, &type});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.type->bits != b.type->bits ? a.type->bits > b.type->bits : *a.name < *b.name;
  });
  std::vector<std::string_view> names;
  for (const Entry& entry : entries) names.push_back(*entry.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw InvalidArgument(cat(kOp, ": two tensors are named ", quoted_name(*twice)));
  return entries;
}

std::string header_text(const std::vector<Entry>& entries,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  const auto begin_member = [&](std::string_view name) {
    if (text.back() != '{') text += ',';
    append_json_string(text, name);
    text += ':';
  };
  if (!metadata.empty()) {
    begin_member("__metadata__");
    text += '{';
    for (const auto& [key, value] : metadata) {
      check_text(key, "key of the metadata");
      check_text(value, "value of the metadata");
      begin_member(key);
      append_json_string(text, value);
    }
    text += '}';
  }
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    begin_member(*entry.name);
    const std::uint64_t end = at + entry.array->nbytes();
    text += cat("{\"dtype\":\"", entry.type->name, "\",\"shape\":[",
                join(entry.array->shape(), ","), "],\"data_offsets\":[", at, ",", end, "]}");
    at = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kSafeTensorsMaxHeaderBytes)
    throw InvalidArgument(cat(kOp, ": the header has ", text.size(), " bytes, expected at most ",
                              kSafeTensorsMaxHeaderBytes));
  return text;
}

// A new file beside `path`; removed unless commit() renames it.
class PendingFile {
 public:
  explicit PendingFile(const std::string& path) : path_(path) {
    static std::atomic<unsigned> counter{0};
    std::random_device random;
    temporary_ = cat(path, ".", random(), "-", counter.fetch_add(1), ".tmp");
    file_ = std::fopen(temporary_.c_str(), "wbx");
    if (file_ == nullptr) throw FileError(kOp, errno, path_);
    std::setvbuf(file_, nullptr, _IONBF, 0);  // chunks are large
  }
  ~PendingFile() {
    if (file_ != nullptr) std::fclose(file_);
    std::error_code ignored;
    if (!committed_) std::filesystem::remove(temporary_, ignored);
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void write(const void* data, std::size_t bytes) {
    if (bytes > 0 && std::fwrite(data, 1, bytes, file_) != bytes)
      throw FileError(kOp, errno, path_);
  }

  void commit() {
#ifndef _WIN32
    if (::fsync(::fileno(file_)) != 0) throw FileError(kOp, errno, path_);
#endif
    if (std::fclose(std::exchange(file_, nullptr)) != 0) throw FileError(kOp, errno, path_);
    std::error_code problem;
    std::filesystem::rename(temporary_, path_, problem);
    if (problem) throw FileError(kOp, problem.value(), path_);
    committed_ = true;
  }

 private:
  const std::string path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
  bool committed_ = false;
};

void write_array(PendingFile& file, const Array& given, std::vector<std::byte>& chunk) {
  const Array array = ops::contiguous(given, kOp);
  const auto first = static_cast<std::int64_t>(static_cast<const std::byte*>(array.data()) -
                                               static_cast<std::byte*>(array.buffer()->data()));
  for (std::size_t at = 0; at < array.nbytes(); at += kChunkBytes) {
    const std::size_t bytes = std::min(kChunkBytes, array.nbytes() - at);
    const Array part({static_cast<std::int64_t>(bytes)}, {1}, DType::kUInt8, array.buffer(),
                     first + static_cast<std::int64_t>(at));
    chunk.resize(std::max(chunk.size(), bytes));
    device::to_host(part, chunk.data());
    file.write(chunk.data(), bytes);
  }
}

}  // namespace

void save_safetensors(const std::string& path,
                      const std::vector<std::pair<std::string, Array>>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  forbid_in_capture(kOp, "the values are needed now, the work is only being recorded");
  const std::vector<Entry> entries = arrange(tensors);
  const std::string header = header_text(entries, metadata);
  PendingFile file(path);
  unsigned char prefix[kSafeTensorsPrefixBytes];
  for (std::size_t i = 0; i < sizeof prefix; ++i)
    prefix[i] = static_cast<unsigned char>(std::uint64_t{header.size()} >> (8 * i));
  file.write(prefix, sizeof prefix);
  file.write(header.data(), header.size());
  std::vector<std::byte> chunk;
  for (const Entry& entry : entries) write_array(file, *entry.array, chunk);
  file.commit();
}

}  // namespace gpk::llm
