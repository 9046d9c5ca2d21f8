// A folder whose files only this user (or root) can have written, so that their contents may be
// executed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpk::inline core {

// Used only where the folder belongs to the effective user or to root and is not writable by anyone
// else; the same for each file. Neither the folder nor a file may be a symlink. All access goes
// through the descriptor that was checked, so swapping the folder has no effect. Windows: plain
// files, protected by the ACL of the user's profile.
//
// Never throws for file errors. Thread safe.
class PrivateFolder {
 public:
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
    std::chrono::system_clock::time_point written;
  };

  explicit PrivateFolder(std::string path);

  // nullopt for a file that is missing, untrusted, not regular, unreadable or larger than
  // `max_bytes` (in which case nothing is read).
  [[nodiscard]] std::optional<std::string> read(const std::string& name,
                                                std::uint64_t max_bytes) const;
  // Writes a temporary file and renames it: atomic for readers. The file is 0600, the folder and
  // missing parents 0700. Returns the reason for failure; empty: written.
  std::string write(const std::string& name, const std::string& bytes) const;
  bool remove(const std::string& name) const;    // a file, or an empty folder of that name
  [[nodiscard]] std::vector<File> list() const;  // regular files, excluding those being written

  // Sets the modification time to now, unless it is younger than `min_age`.
  void touch(const std::string& name, std::chrono::minutes min_age) const;
  void remove_stale() const;  // temporary files of interrupted writes

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace gpk::inline core
