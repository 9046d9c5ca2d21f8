// A folder of a test's own: other tests run beside it, in processes whose addresses are the same.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <system_error>

namespace gpk {

// Not made yet; removed at the end, with what is in it.
class TempFolder {
 public:
  explicit TempFolder(const std::string& name)
      : path_(std::filesystem::path(::testing::TempDir()) /
              ("gpk_" + name + "_" + std::to_string(std::random_device{}()) + "_" +
               std::to_string(std::random_device{}()))) {}
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace gpk
