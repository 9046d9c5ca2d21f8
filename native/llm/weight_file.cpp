#include "llm/weight_file.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/file_error.h"
#include "base/text.h"

#ifdef _WIN32
#define NOMINMAX
#include <windows.h>

#include <filesystem>
#else
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace gpk::llm {
namespace {

constexpr std::size_t kMaxReadBytes = std::size_t{1} << 30;  // the system's limit is 2 GiB

[[noreturn]] void throw_shorter(const char* op, const std::string& path, std::uint64_t size_bytes) {
  throw Error(cat(op, ": ", path, " has become shorter than the ", size_bytes,
                  " bytes it had when it was opened"));
}

}  // namespace

#ifndef _WIN32

WeightFile::WeightFile(std::string path, const char* op) : path_(std::move(path)), op_(op) {
  // Not blocking: a FIFO without a writer would wait for one.
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw FileError(op_, errno, path_);
  handle_ = fd;
  struct stat info{};
  const int problem = ::fstat(fd, &info) == 0 ? 0 : errno;
  if (problem == 0 && S_ISREG(info.st_mode)) {
    size_bytes_ = static_cast<std::uint64_t>(info.st_size);
    return;
  }
  ::close(fd);
  if (problem != 0) throw FileError(op_, problem, path_);
  if (S_ISDIR(info.st_mode)) throw FileError(op_, EISDIR, path_);
  throw InvalidArgument(cat(op_, ": ", path_, " is not a regular file"));
}

WeightFile::~WeightFile() {
  if (mapped_ != nullptr)
    ::munmap(const_cast<std::byte*>(mapped_), static_cast<std::size_t>(size_bytes_));
  ::close(static_cast<int>(handle_));
}

void WeightFile::read(std::uint64_t offset, void* dst, std::size_t bytes) const {
  auto* to = static_cast<std::byte*>(dst);
  while (bytes > 0) {
    const ssize_t got = ::pread(static_cast<int>(handle_), to, std::min(bytes, kMaxReadBytes),
                                static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw FileError(op_, errno, path_);
    if (got == 0) throw_shorter(op_, path_, size_bytes_);
    to += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

const std::byte* WeightFile::map() const {
  const std::lock_guard lock(mutex_);
  if (mapped_ != nullptr || size_bytes_ == 0) return mapped_;
  void* data = ::mmap(nullptr, static_cast<std::size_t>(size_bytes_), PROT_READ, MAP_PRIVATE,
                      static_cast<int>(handle_), 0);
  if (data == MAP_FAILED) throw FileError(op_, errno, path_);
  mapped_ = static_cast<const std::byte*>(data);
  return mapped_;
}

#else

namespace {

HANDLE handle_of(std::intptr_t value) { return reinterpret_cast<HANDLE>(value); }

[[noreturn]] void throw_last(const char* op, const std::string& path) {
  const DWORD code = ::GetLastError();
  const bool missing = code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND;
  throw FileError(op, missing ? ENOENT : code == ERROR_ACCESS_DENIED ? EACCES : EIO, path);
}

}  // namespace

WeightFile::WeightFile(std::string path, const char* op) : path_(std::move(path)), op_(op) {
  const auto wide = std::filesystem::u8path(path_).wstring();
  const HANDLE file = ::CreateFileW(wide.c_str(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE,
                                    nullptr, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) throw_last(op_, path_);
  LARGE_INTEGER size{};
  if (::GetFileSizeEx(file, &size) == 0) {
    ::CloseHandle(file);
    throw_last(op_, path_);
  }
  handle_ = reinterpret_cast<std::intptr_t>(file);
  size_bytes_ = static_cast<std::uint64_t>(size.QuadPart);
}

WeightFile::~WeightFile() {
  if (mapped_ != nullptr) ::UnmapViewOfFile(mapped_);
  ::CloseHandle(handle_of(handle_));
}

void WeightFile::read(std::uint64_t offset, void* dst, std::size_t bytes) const {
  auto* to = static_cast<std::byte*>(dst);
  while (bytes > 0) {
    OVERLAPPED at{};
    at.Offset = static_cast<DWORD>(offset);
    at.OffsetHigh = static_cast<DWORD>(offset >> 32);
    DWORD got = 0;
    if (::ReadFile(handle_of(handle_), to, static_cast<DWORD>(std::min(bytes, kMaxReadBytes)), &got,
                   &at) == 0 &&
        ::GetLastError() != ERROR_HANDLE_EOF)
      throw_last(op_, path_);
    if (got == 0) throw_shorter(op_, path_, size_bytes_);
    to += got;
    offset += got;
    bytes -= got;
  }
}

const std::byte* WeightFile::map() const {
  const std::lock_guard lock(mutex_);
  if (mapped_ != nullptr || size_bytes_ == 0) return mapped_;
  const HANDLE mapping =
      ::CreateFileMappingW(handle_of(handle_), nullptr, PAGE_READONLY, 0, 0, nullptr);
  if (mapping == nullptr) throw_last(op_, path_);
  void* data = ::MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
  ::CloseHandle(mapping);
  if (data == nullptr) throw_last(op_, path_);
  mapped_ = static_cast<const std::byte*>(data);
  return mapped_;
}

#endif

}  // namespace gpk::llm
