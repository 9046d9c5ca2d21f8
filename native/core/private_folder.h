// A folder whose files only this user (or root) can have written: what is read from it may be run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpk::inline core {

// Used only where the folder belongs to the effective user or to root and nobody else may write in
// it; the same for each file. Neither the folder nor a file may be a symlink. All access goes
// through a descriptor of the folder that was checked, so one that is swapped meanwhile is not
// used. Windows: plain files, which the access list of the user's profile protects.
//
// Never throws for trouble with files. Thread safe.
class PrivateFolder {
 public:
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
    std::chrono::system_clock::time_point written;
  };

  explicit PrivateFolder(std::string path);

  // nullopt for a file that is not there, not trusted, not a regular one, cannot be read to its end
  // or is larger than `max_bytes` (nothing is read then).
  [[nodiscard]] std::optional<std::string> read(const std::string& name,
                                                std::uint64_t max_bytes) const;
  // Written beside and renamed: all or nothing, for readers too. The file is 0600, the folder and
  // the parents it lacks 0700. The reason for failure; empty: written.
  std::string write(const std::string& name, const std::string& bytes) const;
  bool remove(const std::string& name) const;    // a file, or an empty folder of that name
  [[nodiscard]] std::vector<File> list() const;  // regular files, but none being written

  // Sets the time of writing to now, unless it is younger than `min_age`.
  void touch(const std::string& name, std::chrono::minutes min_age) const;
  void remove_stale() const;  // what writes left behind that never ended

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace gpk::inline core
