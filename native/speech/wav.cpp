#include "speech/wav.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/little_endian.h"
#include "base/text.h"

namespace gpk::speech {
namespace {

constexpr std::size_t kRiffBytes = 12;
constexpr std::size_t kChunkBytes = 8;
constexpr std::size_t kFormatBytes = 16;
constexpr std::size_t kExtensibleBytes = 40;
constexpr std::uint16_t kPcm = 1;
constexpr std::uint16_t kFloat = 3;
constexpr std::uint16_t kExtensible = 0xFFFE;
constexpr std::uint32_t kUnknownSize = 0xFFFFFFFF;
// What follows the format's number in a WAVE_FORMAT_EXTENSIBLE sub-format.
constexpr unsigned char kSubFormatTail[14] = {0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x80,
                                              0x00, 0x00, 0xAA, 0x00, 0x38, 0x9B, 0x71};

[[noreturn]] void refuse(const std::string& what) { throw InvalidArgument(cat("wav: ", what)); }

// Little-endian numbers of a part of the file. `what` names the part in messages.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const char* what) : bytes_(bytes), what_(what) {}

  [[nodiscard]] std::uint32_t number(std::size_t offset, std::size_t size) const {
    return static_cast<std::uint32_t>(little_endian(slice(offset, size)));
  }
  [[nodiscard]] std::uint16_t word(std::size_t offset) const {
    return static_cast<std::uint16_t>(number(offset, 2));
  }
  [[nodiscard]] bool has(std::size_t offset, const void* text, std::size_t size) const {
    return std::memcmp(slice(offset, size).data(), text, size) == 0;
  }

 private:
  [[nodiscard]] std::span<const std::byte> slice(std::size_t offset, std::size_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset)
      refuse(cat(what_, " has ", bytes_.size(), " bytes, expected at least ", offset + size));
    return bytes_.subspan(offset, size);
  }

  std::span<const std::byte> bytes_;
  const char* what_;
};

// The fmt chunk: all of the header but where the samples are.
WavHeader parse_format(std::span<const std::byte> chunk) {
  const Reader reader(chunk, "the fmt chunk");
  if (chunk.size() < kFormatBytes)
    refuse(cat("the fmt chunk has ", chunk.size(), " bytes, expected at least ", kFormatBytes));
  std::uint16_t format = reader.word(0);
  if (format == kExtensible) {
    if (chunk.size() < kExtensibleBytes)
      refuse(cat("the fmt chunk of WAVE_FORMAT_EXTENSIBLE has ", chunk.size(),
                 " bytes, expected at least ", kExtensibleBytes));
    if (!reader.has(26, kSubFormatTail, sizeof(kSubFormatTail)))
      refuse("the sub-format is not one of PCM or IEEE float");
    format = reader.word(24);
  }
  if (format != kPcm && format != kFloat)
    refuse(cat("the format is ", format, ", expected 1 (PCM), 3 (float) or 65534 (extensible)"));
  WavHeader header;
  header.encoding = format == kPcm ? WavEncoding::kPcm : WavEncoding::kFloat;
  header.channels = reader.word(2);
  header.sample_rate = reader.number(4, 4);
  header.bits = reader.word(14);
  if (header.channels < 1) refuse("the number of channels is 0, expected at least 1");
  if (header.sample_rate < 1) refuse("the sample rate is 0, expected at least 1");
  const int bits = header.bits;
  const bool known = format == kPcm ? bits == 8 || bits == 16 || bits == 24 || bits == 32
                                    : bits == 32 || bits == 64;
  if (!known)
    refuse(cat("samples have ", bits, " bits, expected ",
               format == kPcm ? "8, 16, 24 or 32 (PCM)" : "32 or 64 (float)"));
  const int align = reader.word(12);
  if (align != header.channels * bits / 8)
    refuse(cat("the block size is ", align, " bytes, expected ", header.channels * bits / 8,
               " for ", header.channels, " channels of ", bits, " bits"));
  return header;
}

}  // namespace

const char* name(WavEncoding encoding) { return encoding == WavEncoding::kPcm ? "pcm" : "float"; }

WavHeader parse_wav(std::span<const std::byte> file) {
  const Reader reader(file, "the file");
  if (!reader.has(0, "RIFF", 4)) refuse("the file does not begin with RIFF");
  if (!reader.has(8, "WAVE", 4)) refuse("the RIFF file is not of type WAVE");
  std::optional<WavHeader> header;
  for (std::size_t at = kRiffBytes; file.size() - at >= kChunkBytes;) {
    const std::uint32_t size = reader.number(at + 4, 4);
    const std::size_t begin = at + kChunkBytes;
    const std::size_t rest = file.size() - begin;
    const bool is_data = reader.has(at, "data", 4);
    const bool open_ended = is_data && size == kUnknownSize;
    if (size > rest && !open_ended)
      refuse(cat("a chunk of ", size, " bytes begins at ", begin, ", the file has ", file.size()));
    if (reader.has(at, "fmt ", 4)) {
      if (header) refuse("the file has two fmt chunks");
      header = parse_format(file.subspan(begin, size));
    } else if (is_data) {
      if (!header) refuse("the data chunk comes before the fmt chunk");
      const std::size_t bytes = open_ended ? rest : size;
      const auto frame_bytes = static_cast<std::size_t>(header->channels * header->bits / 8);
      header->offset = begin;
      header->num_frames = static_cast<std::int64_t>(bytes / frame_bytes);
      return *header;
    }
    at = begin + std::min<std::size_t>(rest, std::size_t{size} + size % 2);  // chunks are padded
  }
  refuse(header ? "the file has no data chunk" : "the file has no fmt chunk");
}

}  // namespace gpk::speech
