// A file of weights on disk: reads at any offset by several threads, and a mapping for inspection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace gpk::llm {

// A regular file, open for reading. Thread safe.
class WeightFile {
 public:
  // Throws FileError; InvalidArgument for what is not a regular file. Messages start with `op`.
  explicit WeightFile(std::string path, const char* op = "safetensors");
  ~WeightFile();
  WeightFile(const WeightFile&) = delete;
  WeightFile& operator=(const WeightFile&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }  // when opened

  // Reads exactly `bytes`. Throws FileError; Error where the file has become shorter.
  void read(std::uint64_t offset, void* dst, std::size_t bytes) const;
  // All of it, mapped read-only at the first call, until the end of the object. Reading a page of a
  // file that has become shorter is fatal: read() is not.
  const std::byte* map() const;

 private:
  std::string path_;
  const char* op_;
  std::uint64_t size_bytes_ = 0;
  std::intptr_t handle_ = -1;
  mutable std::mutex mutex_;
  mutable const std::byte* mapped_ = nullptr;
};

}  // namespace gpk::llm
