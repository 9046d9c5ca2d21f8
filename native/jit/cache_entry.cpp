#include "jit/cache_entry.h"

#include "base/error.h"
#include "jit/bytes.h"
#include "jit/digest.h"

namespace gpk::jit {
namespace {

constexpr std::string_view kMagic = "GPKJIT\r\n";
constexpr std::size_t kChecksumBytes = 32;

std::string checksum(std::string_view bytes) {
  const Sha256Bytes digest = sha256(bytes);
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

CompiledImage read_image(ByteReader& in) {
  CompiledImage out;
  out.kind = in.u8() == 0 ? CompiledImage::Kind::kCubin : CompiledImage::Kind::kPtx;
  out.bytes = in.text();
  const std::uint64_t num_names = in.u64();
  for (std::uint64_t i = 0; i < num_names; ++i) {
    const std::string_view expression = in.text();
    const std::string_view symbol = in.text();
    out.lowered_names.emplace_back(expression, symbol);
  }
  out.log = in.text();
  return out;
}

}  // namespace

std::string write_entry(std::string_view key, const CompiledImage& image) {
  ByteWriter out;
  out.raw(kMagic);
  out.u32(kCacheSchema);
  out.text(key);
  out.u8(image.kind == CompiledImage::Kind::kCubin ? 0 : 1);
  out.text(image.bytes);
  out.u64(image.lowered_names.size());
  for (const auto& [expression, symbol] : image.lowered_names) {
    out.text(expression);
    out.text(symbol);
  }
  out.text(image.log);
  out.raw(checksum(out.bytes()));
  return out.take();
}

std::optional<CompiledImage> read_entry(std::string_view key, std::string_view bytes) {
  if (bytes.size() < kMagic.size() + kChecksumBytes) return std::nullopt;
  const std::string_view body = bytes.substr(0, bytes.size() - kChecksumBytes);
  if (checksum(body) != bytes.substr(body.size())) return std::nullopt;
  try {
    ByteReader in(body);
    if (in.raw(kMagic.size()) != kMagic || in.u32() != kCacheSchema || in.text() != key) {
      return std::nullopt;
    }
    CompiledImage image = read_image(in);
    if (!in.rest().empty()) return std::nullopt;
    return image;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace gpk::jit
