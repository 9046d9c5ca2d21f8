// Choices of plans that were measured on this machine: in memory, and in a file beside the kernel
// cache. One store per family; plans are text here, which the family writes and reads.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace gpk::plan {

struct TunedText {
  std::string plan;        // one line, no tabs
  double us = 0.0;         // measured
  double native_us = 0.0;  // the best of our own kernels; 0: none was measured
  friend bool operator==(const TunedText&, const TunedText&) = default;
};
using TuningTable = std::map<std::string, TunedText>;  // by desc and machine

class TuningStore {
 public:
  // <family>.tune in the cache folder. `is_plan` says whether a plan's text can be read.
  TuningStore(std::string family, bool (*is_plan)(std::string_view text));

  [[nodiscard]] std::string path() const;  // empty: nothing is kept on disk

  // Reads the file at first use (PYGPUKIT_CACHE_DISABLE: none).
  bool empty();
  std::optional<TunedText> find(const std::string& key);
  // Here and in the file, where other processes may have added theirs meanwhile.
  void store(const std::string& key, const TunedText& tuned);
  // Forgets all; with `file` also there. Returns how many there were.
  std::size_t clear(bool file);

  // The file: one line of schema, package version and digest of the rest, then a line per entry.
  // Anything else (another schema or version, a wrong digest, a line that cannot be read, a file
  // that is too large or not to be trusted: core/private_folder.h) is an empty table. Never throws.
  [[nodiscard]] TuningTable read_file(const std::string& path) const;
  // The reason for failure; empty: written.
  [[nodiscard]] std::string write_file(const std::string& path, const TuningTable& table) const;

 private:
  void load_once();  // under mutex_

  const std::string family_;
  bool (*const is_plan_)(std::string_view);
  std::mutex mutex_;
  bool loaded_ = false;
  std::string loaded_from_;
  TuningTable table_;
};

// The text up to `separator`, which is dropped from `rest`.
std::string_view next_field(std::string_view& rest, char separator);

}  // namespace gpk::plan
