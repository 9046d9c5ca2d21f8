#include "llm/zip_directory.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "base/error.h"
#include "base/little_endian.h"
#include "base/text.h"
#include "llm/safetensors_header.h"

namespace gpk::llm {
namespace {

constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocator64Bytes = 20;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kMaxCommentBytes = 65'535;
constexpr std::uint16_t kZip64Extra = 1;
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // the value is in the ZIP64 field
constexpr std::uint16_t kEncrypted = 1;

std::uint64_t number(std::string_view bytes, std::size_t at, std::size_t size) {
  return little_endian(bytes.substr(at, size));
}

// Where the directory is.
struct Place {
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t num_entries = 0;
  std::uint64_t end = 0;  // of what comes before the end records
};

// An entry, before its local header is read.
struct Listed {
  ZipEntry entry;
  std::uint64_t header_offset = 0;
  std::uint16_t method = 0;
};

class Reader {
 public:
  Reader(const WeightFile& file, const char* op) : file_(file), op_(op) {}

  std::vector<ZipEntry> read() const {
    const Place place = find_directory();
    if (place.size_bytes > kMaxZipDirectoryBytes)
      fail(cat("the directory has ", place.size_bytes, " bytes, expected at most ",
               kMaxZipDirectoryBytes));
    const std::string bytes = read_bytes(place.offset, place.size_bytes);
    std::vector<Listed> listed = list(bytes, place);
    for (Listed& each : listed) read_local_header(each, place.offset);
    check_overlaps(listed);
    std::vector<ZipEntry> entries;
    entries.reserve(listed.size());
    for (Listed& each : listed) entries.push_back(std::move(each.entry));
    return entries;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw InvalidArgument(cat(op_, ": ", file_.path(), ": ", problem));
  }
  [[noreturn]] void fail(const ZipEntry& entry, const std::string& problem) const {
    fail(cat("entry ", quoted_name(entry.name), " ", problem));
  }

  // Both are inside the file.
  std::string read_bytes(std::uint64_t offset, std::uint64_t size) const {
    std::string bytes(static_cast<std::size_t>(size), '\0');
    file_.read(offset, bytes.data(), bytes.size());
    return bytes;
  }

  // The end record is the last thing in the file but for a comment of the length it states.
  Place find_directory() const {
    const std::uint64_t file_bytes = file_.size_bytes();
    const std::uint64_t tail_bytes =
        std::min<std::uint64_t>(file_bytes, kEndBytes + kMaxCommentBytes);
    const std::string tail = read_bytes(file_bytes - tail_bytes, tail_bytes);
    if (tail.size() >= kEndBytes)
      for (std::size_t at = tail.size() - kEndBytes + 1; at-- > 0;)
        if (number(tail, at, 4) == kEndSignature &&
            number(tail, at + 20, 2) == tail.size() - at - kEndBytes)
          return place_of(std::string_view(tail).substr(at, kEndBytes),
                          file_bytes - tail_bytes + at);
    fail("there is no ZIP end record, expected one at the end of the file");
  }

  Place place_of(std::string_view end, std::uint64_t end_offset) const {
    Place place{number(end, 16, 4), number(end, 12, 4), number(end, 10, 2), end_offset};
    if (number(end, 4, 2) != 0 || number(end, 6, 2) != 0 || number(end, 8, 2) != place.num_entries)
      fail("the archive has several parts, expected one file");
    if (has_locator(end_offset)) place = place_of_64(end_offset);
    if (place.offset > place.end || place.size_bytes != place.end - place.offset)
      fail(cat("the directory is said to be at byte ", place.offset, " and to have ",
               place.size_bytes, " bytes, expected it to end at byte ", place.end));
    return place;
  }

  bool has_locator(std::uint64_t end_offset) const {
    return end_offset >= kLocator64Bytes &&
           number(read_bytes(end_offset - kLocator64Bytes, 4), 0, 4) == kLocator64Signature;
  }

  Place place_of_64(std::uint64_t end_offset) const {
    const std::uint64_t locator_offset = end_offset - kLocator64Bytes;
    const std::string locator = read_bytes(locator_offset, kLocator64Bytes);
    const std::uint64_t offset = number(locator, 8, 8);
    if (locator_offset < kEnd64Bytes || offset != locator_offset - kEnd64Bytes)
      fail(cat("the ZIP64 end record is said to be at byte ", offset, ", expected ", kEnd64Bytes,
               " bytes in front of its locator at byte ", locator_offset));
    const std::string end = read_bytes(offset, kEnd64Bytes);
    if (number(end, 0, 4) != kEnd64Signature || number(end, 4, 8) != kEnd64Bytes - 12)
      fail(cat("there is no ZIP64 end record of ", kEnd64Bytes, " bytes at byte ", offset));
    const std::uint64_t count = number(end, 32, 8);
    if (number(end, 16, 4) != 0 || number(end, 20, 4) != 0 || number(end, 24, 8) != count)
      fail("the archive has several parts, expected one file");
    return {number(end, 48, 8), number(end, 40, 8), count, offset};
  }

  std::vector<Listed> list(std::string_view bytes, const Place& place) const {
    if (place.num_entries > bytes.size() / kCentralBytes)
      fail(cat("the directory is said to have ", place.num_entries, " entries, more than its ",
               bytes.size(), " bytes can hold"));
    std::vector<Listed> listed;
    std::unordered_set<std::string> names;
    std::size_t at = 0;
    while (at < bytes.size()) {
      at += read_central_header(bytes.substr(at), listed);
      if (!names.insert(listed.back().entry.name).second)
        fail(listed.back().entry, "is there twice");
    }
    if (listed.size() != place.num_entries)
      fail(cat("the directory has ", listed.size(), " entries, expected ", place.num_entries));
    return listed;
  }

  // Returns the bytes of the header.
  std::size_t read_central_header(std::string_view bytes, std::vector<Listed>& listed) const {
    if (bytes.size() < kCentralBytes || number(bytes, 0, 4) != kCentralSignature)
      fail(cat("entry ", listed.size(), " of the directory has no header"));
    const std::size_t name_bytes = number(bytes, 28, 2);
    const std::size_t extra_bytes = number(bytes, 30, 2);
    const std::size_t total = kCentralBytes + name_bytes + extra_bytes + number(bytes, 32, 2);
    if (total > bytes.size())
      fail(cat("entry ", listed.size(), " of the directory goes beyond its end"));
    Listed each;
    each.entry.name = bytes.substr(kCentralBytes, name_bytes);
    each.method = static_cast<std::uint16_t>(number(bytes, 10, 2));
    if ((number(bytes, 8, 2) & kEncrypted) != 0) fail(each.entry, "is encrypted");
    if (each.method != 0)
      fail(each.entry, cat("is compressed (method ", each.method,
                           "), expected stored bytes, as torch.save writes them"));
    std::uint64_t packed = number(bytes, 20, 4);
    each.entry.size_bytes = number(bytes, 24, 4);
    each.header_offset = number(bytes, 42, 4);
    read_extra(bytes.substr(kCentralBytes + name_bytes, extra_bytes), each, packed);
    if (packed != each.entry.size_bytes)
      fail(each.entry, cat("has ", packed, " stored bytes of ", each.entry.size_bytes,
                           ", expected all of them"));
    listed.push_back(std::move(each));
    return total;
  }

  // The ZIP64 field: those of size, stored size and offset that do not fit in 32 bits.
  void read_extra(std::string_view extra, Listed& each, std::uint64_t& packed) const {
    while (extra.size() >= 4) {
      const std::uint64_t id = number(extra, 0, 2);
      const std::size_t bytes = number(extra, 2, 2);
      if (bytes > extra.size() - 4) fail(each.entry, "has an extra field beyond its header");
      std::string_view field = extra.substr(4, bytes);
      extra.remove_prefix(4 + bytes);
      if (id != kZip64Extra) continue;
      for (std::uint64_t* value : {&each.entry.size_bytes, &packed, &each.header_offset}) {
        if (*value != kIn64) continue;
        if (field.size() < 8) fail(each.entry, "has a ZIP64 field that is too short");
        *value = number(field, 0, 8);
        field.remove_prefix(8);
      }
    }
  }

  void read_local_header(Listed& each, std::uint64_t directory) const {
    const auto inside = [&](std::uint64_t offset, std::uint64_t bytes) {
      return offset <= directory && bytes <= directory - offset;
    };
    ZipEntry& entry = each.entry;
    if (!inside(each.header_offset, kLocalBytes + entry.name.size()))
      fail(entry, cat("is said to be at byte ", each.header_offset,
                      ", expected it in front of the directory at byte ", directory));
    const std::string header = read_bytes(each.header_offset, kLocalBytes + entry.name.size());
    if (number(header, 0, 4) != kLocalSignature || number(header, 26, 2) != entry.name.size() ||
        std::string_view(header).substr(kLocalBytes) != entry.name ||
        number(header, 8, 2) != each.method)
      fail(entry, cat("has another local header at byte ", each.header_offset));
    entry.offset = each.header_offset + header.size() + number(header, 28, 2);
    if (!inside(entry.offset, entry.size_bytes))
      fail(entry, cat("has ", entry.size_bytes, " bytes at byte ", entry.offset,
                      ", expected them in front of the directory at byte ", directory));
  }

  void check_overlaps(const std::vector<Listed>& listed) const {
    std::vector<const Listed*> sorted;
    for (const Listed& each : listed) sorted.push_back(&each);
    std::sort(sorted.begin(), sorted.end(),
              [](const Listed* a, const Listed* b) { return a->header_offset < b->header_offset; });
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      const ZipEntry& before = sorted[i - 1]->entry;
      if (sorted[i]->header_offset < before.offset + before.size_bytes)
        fail(sorted[i]->entry, cat("overlaps entry ", quoted_name(before.name)));
    }
  }

  const WeightFile& file_;
  const char* op_;
};

}  // namespace

std::vector<ZipEntry> read_zip_directory(const WeightFile& file, const char* op) {
  return Reader(file, op).read();
}

}  // namespace gpk::llm
