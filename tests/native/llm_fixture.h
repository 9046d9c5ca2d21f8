// SafeTensors files for tests, written by hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "temp_folder.h"

namespace gpk::llm {

// The bytes of a file with this header and data.
inline std::string file_of(const std::string& header, const std::string& data = {}) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
  return bytes + header + data;
}

// Bytes that differ from their neighbours.
inline std::string pattern(std::size_t bytes, unsigned seed = 0) {
  std::string data(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<char>((i + seed) * 7 + (i + seed) / 251);
  return data;
}

class Folder {
 public:
  explicit Folder(const std::string& name) : temp_(name) {
    std::filesystem::create_directories(temp_.path());
  }
  std::string path(const std::string& name) const { return (temp_.path() / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  TempFolder temp_;
};

}  // namespace gpk::llm
