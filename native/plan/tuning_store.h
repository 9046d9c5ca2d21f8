// Plans chosen by measurement on this machine: in memory, and in a file beside the kernel cache.
// One store per family; plans are text here, which the family formats and parses.
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
  double native_us = 0.0;  // the fastest of our own kernels; 0: none was measured
  friend bool operator==(const TunedText&, const TunedText&) = default;
};
using TuningTable = std::map<std::string, TunedText>;  // by desc and machine

class TuningStore {
 public:
  // <family>.tune in the cache folder. `is_plan` tells whether a plan's text parses.
  TuningStore(std::string family, bool (*is_plan)(std::string_view text));

  [[nodiscard]] std::string path() const;  // empty: nothing is kept on disk

  // Reads the file on first use (not with PYGPUKIT_CACHE_DISABLE).
  bool empty();
  std::optional<TunedText> find(const std::string& key);
  // Stores in memory and in the file, merged with what other processes have added meanwhile.
  void store(const std::string& key, const TunedText& tuned);
  // Drops all entries; with `file` on disk too. Returns how many there were.
  std::size_t clear(bool file);

  // The file: one line of schema, package version and digest of the rest, then a line per entry.
  // Anything else (another schema or version, a wrong digest, a line that does not parse, a file
  // that is too large or not trusted: core/private_folder.h) reads as an empty table. Never throws.
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

// The text up to `separator`; both are consumed from `rest`.
std::string_view next_field(std::string_view& rest, char separator);

}  // namespace gpk::plan
