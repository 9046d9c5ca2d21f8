#include "jit/compress.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "jit/bytes.h"

// Format: raw size (varint), hash of the raw bytes (8 bytes), then three streams: the heads and the
// literals, each with its size (varint) before it, and the distances. A head is a byte (high
// nibble: number of literals, low nibble: match length - kMinMatch; 15 means that a varint with the
// rest follows) and stands for the next literals and, unless the output is complete, for a match at
// the next distance (varint, 1 = the previous byte, 0 = the distance of the match before). Varints
// are base 128, low bits first.
//
// Text that differs from earlier text in a register here and there is matches of one distance. A
// wheel is deflated once more, which codes streams of one kind better than a mixture, and literals
// better than distances: hence matches at a new distance are long.
namespace gpk::jit {
namespace {

constexpr std::size_t kMinMatch = 3;      // at the distance before, which costs a byte
constexpr std::size_t kMinNewMatch = 12;  // a shorter one costs as much as its deflated literals
constexpr std::uint64_t kLongHalf = 15;
constexpr std::size_t kWindow = std::size_t{8} << 20;
constexpr int kMaxChain = 64;
constexpr std::size_t kGoodMatch = 512;    // long enough to stop searching
constexpr std::size_t kDistanceBytes = 3;  // of a typical one
constexpr int kHashBits = 17;
constexpr std::uint32_t kNone = 0xffffffffu;

std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

void put_varint(ByteWriter& out, std::uint64_t value) {
  for (; value >= 128; value >>= 7) out.u8(static_cast<std::uint8_t>(value | 128));
  out.u8(static_cast<std::uint8_t>(value));
}

std::uint64_t get_varint(ByteReader& in) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 63; shift += 7) {
    const std::uint8_t byte = in.u8();
    value |= std::uint64_t{byte & 127u} << shift;
    if (byte < 128) return value;
  }
  throw Error("jit: packed data contains an overlong varint");
}

struct Match {
  std::size_t length = 0;
  std::size_t distance = 0;
};

class SequenceWriter {
 public:
  // `match` of length 0: the literals end the data.
  void put(std::string_view literals, const Match& match) {
    const std::uint64_t extra = match.length == 0 ? 0 : match.length - kMinMatch;
    const std::uint64_t high = std::min<std::uint64_t>(literals.size(), kLongHalf);
    const std::uint64_t low = std::min<std::uint64_t>(extra, kLongHalf);
    heads_.u8(static_cast<std::uint8_t>(high << 4 | low));
    if (high == kLongHalf) put_varint(heads_, literals.size() - kLongHalf);
    if (low == kLongHalf) put_varint(heads_, extra - kLongHalf);
    literals_.raw(literals);
    if (match.length == 0) return;
    put_varint(distances_, match.distance == last_distance_ ? 0 : match.distance);
    last_distance_ = match.distance;
  }

  // 0: there was no match yet.
  [[nodiscard]] std::size_t last_distance() const noexcept { return last_distance_; }

  void write_to(ByteWriter& out) const {
    put_varint(out, heads_.bytes().size());
    out.raw(heads_.bytes());
    put_varint(out, literals_.bytes().size());
    out.raw(literals_.bytes());
    out.raw(distances_.bytes());
  }

 private:
  ByteWriter heads_;
  ByteWriter literals_;
  ByteWriter distances_;
  std::size_t last_distance_ = 0;
};

// Hash chains of earlier positions by their first four bytes.
class Matcher {
 public:
  explicit Matcher(std::string_view raw)
      : raw_(raw), head_(std::size_t{1} << kHashBits, kNone), previous_(raw.size(), kNone) {}

  void insert(std::size_t at) {
    if (at + 4 > raw_.size()) return;
    std::uint32_t& head = head_[hash(at)];
    previous_[at] = head;
    head = static_cast<std::uint32_t>(at);
  }

  // The best of an earlier match and one at `last_distance`, which saves the bytes of a distance.
  Match find(std::size_t at, std::size_t last_distance) const {
    const Match far = find(at);
    if (last_distance == 0 || at >= raw_.size()) return far;
    const Match near{common(at - last_distance, at), last_distance};
    return near.length >= kMinMatch && near.length + kDistanceBytes >= far.length ? near : far;
  }

 private:
  Match find(std::size_t at) const {
    Match best;
    if (at + kMinNewMatch > raw_.size()) return best;
    std::uint32_t candidate = head_[hash(at)];
    for (int i = 0; i < kMaxChain && candidate != kNone; ++i, candidate = previous_[candidate]) {
      if (at - candidate > kWindow) break;
      const std::size_t length = common(candidate, at);
      if (length > best.length) best = {length, at - candidate};
      if (best.length >= kGoodMatch) break;
    }
    return best.length >= kMinNewMatch ? best : Match{};
  }

  std::size_t hash(std::size_t at) const {
    std::uint32_t word = 0;
    std::memcpy(&word, raw_.data() + at, 4);
    return (word * 2654435761u) >> (32 - kHashBits);
  }

  std::size_t common(std::size_t a, std::size_t b) const {
    std::size_t length = 0;
    while (b + length < raw_.size() && raw_[a + length] == raw_[b + length]) ++length;
    return length;
  }

  std::string_view raw_;
  std::vector<std::uint32_t> head_;
  std::vector<std::uint32_t> previous_;
};

}  // namespace

std::string compress(std::string_view raw) {
  if (raw.size() >= kNone) throw Error("jit: too much data to compress at once");
  ByteWriter out;
  put_varint(out, raw.size());
  out.u64(fnv1a(raw));
  Matcher matcher(raw);
  SequenceWriter sequences;
  std::size_t literals = 0;  // start of the pending literals
  for (std::size_t at = 0; at < raw.size();) {
    const std::size_t last = sequences.last_distance();
    const Match match = matcher.find(at, last);
    matcher.insert(at);
    // Lazy matching: one byte later there may be a longer match; then emit this byte as a literal.
    if (match.length == 0 ||
        (match.length < kGoodMatch && matcher.find(at + 1, last).length > match.length + 1)) {
      ++at;
      continue;
    }
    sequences.put(raw.substr(literals, at - literals), match);
    const std::size_t end = at + match.length;
    while (++at < end) matcher.insert(at);
    literals = end;
  }
  if (literals < raw.size()) sequences.put(raw.substr(literals), {});
  sequences.write_to(out);
  return out.take();
}

std::string decompress(std::string_view packed, std::size_t max_bytes) {
  ByteReader in(packed);
  const std::uint64_t size = get_varint(in);
  if (size > max_bytes) throw Error("jit: packed data exceeds the size limit");
  const std::uint64_t expected = in.u64();
  ByteReader heads(in.raw(get_varint(in)));
  ByteReader literals(in.raw(get_varint(in)));
  ByteReader distances(in.rest());
  std::string out;
  // A corrupt size must not cause a huge allocation.
  out.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(size, packed.size() * 64)));
  std::uint64_t last = 0;
  while (out.size() < size) {
    const std::uint8_t head = heads.u8();
    std::uint64_t num_literals = head >> 4;
    std::uint64_t extra = head & 15u;
    if (num_literals == kLongHalf) num_literals += get_varint(heads);
    if (extra == kLongHalf) extra += get_varint(heads);
    if (num_literals > size - out.size()) throw Error("jit: packed data overruns its size");
    out.append(literals.raw(num_literals));
    if (out.size() == size) {
      if (extra != 0) throw Error("jit: packed data is corrupt");
      break;
    }
    const std::uint64_t given = get_varint(distances);
    const std::uint64_t distance = given == 0 ? last : given;
    last = distance;
    const std::uint64_t left = size - out.size();
    if (left < kMinMatch || extra > left - kMinMatch || distance == 0 || distance > out.size()) {
      throw Error("jit: packed data contains a bad match");
    }
    std::size_t from = out.size() - static_cast<std::size_t>(distance);
    const std::size_t end = out.size() + static_cast<std::size_t>(extra) + kMinMatch;
    if (end - out.size() <= distance) {
      out.append(out, from, end - out.size());
    } else {
      while (out.size() < end) out.push_back(out[from++]);
    }
  }
  const bool all_used = heads.rest().empty() && literals.rest().empty() && distances.rest().empty();
  if (!all_used || fnv1a(out) != expected) throw Error("jit: packed data is corrupt");
  return out;
}

}  // namespace gpk::jit
