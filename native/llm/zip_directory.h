// The entries of a ZIP archive, as far as weight files need them: stored, not compressed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llm/weight_file.h"

namespace gpk::llm {

struct ZipEntry {
  std::string name;
  std::uint64_t offset = 0;  // of its bytes in the file
  std::uint64_t size_bytes = 0;
};

inline constexpr std::uint64_t kMaxZipDirectoryBytes = 64'000'000;

// From the central directory, ZIP64 included, in its order. Throws InvalidArgument that starts with
// `op` and names file and entry, unless: it is one archive up to the end of the file; names are
// unique; every entry is stored, not encrypted, and inside the file in front of the directory;
// local headers have the directory's name and method; entries do not overlap.
std::vector<ZipEntry> read_zip_directory(const WeightFile& file, const char* op);

}  // namespace gpk::llm
