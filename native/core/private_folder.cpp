#include "core/private_folder.h"

#include <atomic>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/text.h"

#ifdef _WIN32
#include <filesystem>
#include <fstream>
#else
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#endif

namespace gpk::inline core {
namespace {

using std::chrono::system_clock;

constexpr std::string_view kTempSuffix = ".gpk-tmp";
constexpr std::chrono::minutes kStaleAge{60};

// Process ids repeat across containers that share a folder, so the name is random instead. The
// engine is per call: a forked child must not repeat its parent's names.
std::string temp_name(const std::string& name) {
  static std::atomic<unsigned> counter{0};
  std::random_device random;
  return cat(name, "-", random(), "-", random(), "-", counter.fetch_add(1), kTempSuffix);
}

#ifndef _WIN32

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int get() const noexcept { return fd_; }
  int close() noexcept { return fd_ < 0 ? 0 : ::close(std::exchange(fd_, -1)); }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string error_text(int code) { return std::generic_category().message(code); }

std::string distrust_of(const struct stat& info) {
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return cat("belongs to user ", info.st_uid, ", not to ", ::geteuid(), " or root");
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return "is writable by other users (fix with chmod go-w)";
  return {};
}

// O_NOFOLLOW covers only the last component: "link/" and "link/." would be followed.
std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && (path.ends_with('/') || path.ends_with("/.")))
    path.resize(path.size() - (path.ends_with('/') ? 1 : 2));
  return path;
}

// Opens the folder; `why` is the reason where it exists but must not be used.
Descriptor open_trusted(const std::string& given, std::string* why = nullptr) {
  const std::string path = without_trailing_slash(given);
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info{};
  std::string problem;
  if (!folder) {
    const int code = errno;
    if (code != ENOENT) problem = cat("cannot be opened: ", error_text(code));
    if (::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) problem = "is a symlink";
  } else if (::fstat(folder.get(), &info) != 0) {
    problem = cat("cannot be examined: ", error_text(errno));
  } else {
    problem = distrust_of(info);
  }
  if (why != nullptr && !problem.empty()) *why = cat(path, " ", problem);
  return Descriptor(problem.empty() ? folder.release() : -1);
}

// Creates each missing folder with mode 0700.
void make_folders(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    ::mkdir(path.substr(0, end).c_str(), S_IRWXU);
    if (end == std::string::npos) return;
  }
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// Returns 0 or errno. A short write (disk full) leaves nothing behind.
int write_temp(int folder, const std::string& name, const std::string& bytes) {
  Descriptor file(::openat(folder, name.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           S_IRUSR | S_IWUSR));
  if (!file) return errno;
  errno = ENOSPC;
  const bool written = ::fchmod(file.get(), S_IRUSR | S_IWUSR) == 0 && write_all(file.get(), bytes);
  if (written && file.close() == 0) return 0;
  const int code = errno;
  ::unlinkat(folder, name.c_str(), 0);
  return code;
}

// Rename replaces anything but a folder.
int take_name(int folder, const std::string& temp, const std::string& name) {
  if (::renameat(folder, temp.c_str(), folder, name.c_str()) == 0) return 0;
  if (::unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0 &&
      ::renameat(folder, temp.c_str(), folder, name.c_str()) == 0)
    return 0;
  const int code = errno;
  ::unlinkat(folder, temp.c_str(), 0);
  return code;
}

std::optional<std::string> read_all(int fd, std::size_t expected_bytes, std::uint64_t max_bytes) {
  std::string out(expected_bytes + 1, '\0');  // one extra byte, to detect end of file
  std::size_t filled = 0;
  for (;;) {
    const ssize_t count = ::read(fd, out.data() + filled, out.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    filled += static_cast<std::size_t>(count);
    if (filled > max_bytes) return std::nullopt;
    if (count == 0) break;
    if (filled == out.size()) out.resize(out.size() * 2);
  }
  out.resize(filled);
  return out;
}

system_clock::time_point write_time(const struct stat& info) {
#ifdef __APPLE__
  const timespec& time = info.st_mtimespec;
#else
  const timespec& time = info.st_mtim;
#endif
  return system_clock::time_point(std::chrono::duration_cast<system_clock::duration>(
      std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec)));
}

std::vector<PrivateFolder::File> list_all(const std::string& path) {
  std::vector<PrivateFolder::File> out;
  Descriptor folder = open_trusted(path);
  if (!folder) return out;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(folder.get()), ::closedir);
  if (!entries) return out;
  const int fd = folder.release();  // closedir() closes it
  while (const dirent* entry = ::readdir(entries.get())) {
    struct stat info{};  // another process may have removed it
    if (::fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))
      continue;
    out.push_back({entry->d_name, static_cast<std::uint64_t>(info.st_size), write_time(info)});
  }
  return out;
}

#else

namespace fs = std::filesystem;

// file_clock::to_sys arrived late in some standard libraries.
system_clock::time_point as_system_time(fs::file_time_type time) {
  return system_clock::now() + std::chrono::duration_cast<system_clock::duration>(
                                   time - fs::file_time_type::clock::now());
}

std::vector<PrivateFolder::File> list_all(const std::string& path) {
  std::vector<PrivateFolder::File> out;
  std::error_code ec;
  for (fs::directory_iterator it(path, ec), end; !ec && it != end; it.increment(ec)) {
    std::error_code gone;  // removed by another process
    const std::uint64_t bytes = it->file_size(gone);
    const fs::file_time_type written = it->last_write_time(gone);
    if (!gone) out.push_back({it->path().filename().string(), bytes, as_system_time(written)});
  }
  return out;
}

#endif

}  // namespace

PrivateFolder::PrivateFolder(std::string path) : path_(std::move(path)) {}

void PrivateFolder::remove_stale() const {
  const auto now = system_clock::now();
  for (const File& file : list_all(path_))
    if (file.name.ends_with(kTempSuffix) && now - file.written > kStaleAge) remove(file.name);
}

std::vector<PrivateFolder::File> PrivateFolder::list() const {
  std::vector<File> files = list_all(path_);
  std::erase_if(files, [](const File& file) { return file.name.ends_with(kTempSuffix); });
  return files;
}

#ifndef _WIN32

std::optional<std::string> PrivateFolder::read(const std::string& name,
                                               std::uint64_t max_bytes) const {
  const Descriptor folder = open_trusted(path_);
  if (!folder) return std::nullopt;
  // A FIFO without a writer would block.
  const Descriptor file(::openat(folder.get(), name.c_str(),
                                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      !distrust_of(info).empty() || static_cast<std::uint64_t>(info.st_size) > max_bytes)
    return std::nullopt;
  return read_all(file.get(), static_cast<std::size_t>(info.st_size), max_bytes);
}

std::string PrivateFolder::write(const std::string& name, const std::string& bytes) const {
  if (path_.empty()) return "no folder is set";
  std::string why;
  Descriptor folder = open_trusted(path_, &why);
  if (!folder && why.empty()) {
    make_folders(path_);
    folder = open_trusted(path_, &why);
    if (!folder && why.empty()) return cat("cannot make ", path_);
  }
  if (!folder) return why;
  std::string temp;
  try {
    temp = temp_name(name);
  } catch (const std::exception& e) {  // std::random_device
    return e.what();
  }
  int code = write_temp(folder.get(), temp, bytes);
  if (code != 0)
    return cat("cannot write ", bytes.size(), " bytes in ", path_, ": ", error_text(code));
  code = take_name(folder.get(), temp, name);
  return code == 0 ? std::string() : cat("cannot write ", path_, "/", name, ": ", error_text(code));
}

bool PrivateFolder::remove(const std::string& name) const {
  const Descriptor folder = open_trusted(path_);
  return folder && (::unlinkat(folder.get(), name.c_str(), 0) == 0 ||
                    ::unlinkat(folder.get(), name.c_str(), AT_REMOVEDIR) == 0);
}

void PrivateFolder::touch(const std::string& name, std::chrono::minutes min_age) const {
  const Descriptor folder = open_trusted(path_);
  struct stat info{};
  if (!folder || ::fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (system_clock::now() - write_time(info) > min_age)
    ::utimensat(folder.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

#else

std::optional<std::string> PrivateFolder::read(const std::string& name,
                                               std::uint64_t max_bytes) const {
  const fs::path path = fs::path(path_) / name;
  std::error_code ec;
  const std::uint64_t bytes = fs::file_size(path, ec);
  if (ec || bytes > max_bytes) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string out(static_cast<std::size_t>(bytes), '\0');
  file.read(out.data(), static_cast<std::streamsize>(bytes));
  return file ? std::optional(std::move(out)) : std::nullopt;
}

std::string PrivateFolder::write(const std::string& name, const std::string& bytes) const {
  if (path_.empty()) return "no folder is set";
  std::error_code ec;
  fs::create_directories(path_, ec);
  const fs::path temp = fs::path(path_) / temp_name(name);
  std::ofstream file(temp, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) fs::rename(temp, fs::path(path_) / name, ec);
  if (file && !ec) return {};
  fs::remove(temp, ec);
  return cat("cannot write ", bytes.size(), " bytes in ", path_);
}

bool PrivateFolder::remove(const std::string& name) const {
  std::error_code ec;
  return fs::remove(fs::path(path_) / name, ec) && !ec;
}

void PrivateFolder::touch(const std::string& name, std::chrono::minutes min_age) const {
  const fs::path path = fs::path(path_) / name;
  const fs::file_time_type now = fs::file_time_type::clock::now();
  std::error_code ec;
  const fs::file_time_type written = fs::last_write_time(path, ec);
  if (!ec && now - written > min_age) fs::last_write_time(path, now, ec);
}

#endif

}  // namespace gpk::inline core
