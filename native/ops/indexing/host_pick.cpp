#include "ops/indexing/host_pick.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace gpk::ops {
namespace {

struct TwoWords {
  std::uint64_t low, high;
};

// words(W{}) with a word W as long as a line; copy() where there is none.
template <class Words, class Bytes>
void by_line(std::size_t bytes, const Words& words, const Bytes& copy) {
  switch (bytes) {
    case 1: return words(std::uint8_t{});
    case 2: return words(std::uint16_t{});
    case 4: return words(std::uint32_t{});
    case 8: return words(std::uint64_t{});
    case 16: return words(TwoWords{});
    default: return copy();
  }
}

// From the start of the axis; empty where one is out of bounds.
template <class I>
std::vector<std::int64_t> resolved(std::span<const I> index, std::int64_t size) {
  I least = std::numeric_limits<I>::max();
  I most = std::numeric_limits<I>::min();
  for (const I i : index) {
    least = std::min(least, i);
    most = std::max(most, i);
  }
  if (least < -size || most >= size) return {};
  std::vector<std::int64_t> result(index.begin(), index.end());
  if (least < 0)
    for (std::int64_t& i : result) i += i < 0 ? size : 0;
  return result;
}

void take_resolved(const void* x, std::span<const std::int64_t> index, void* out,
                   const PickShape& s) {
  const auto words = [&]<class W>(W) {
    const W* from = static_cast<const W*>(x);
    W* to = static_cast<W*>(out);
    for (std::int64_t o = 0; o < s.outer; ++o, from += s.size)
      for (const std::int64_t i : index) *to++ = from[i];
  };
  const auto bytes = [&] {
    const auto* from = static_cast<const std::byte*>(x);
    auto* to = static_cast<std::byte*>(out);
    const auto step = static_cast<std::int64_t>(s.inner_bytes);
    for (std::int64_t o = 0; o < s.outer; ++o, from += s.size * step)
      for (const std::int64_t i : index) {
        std::memcpy(to, from + i * step, s.inner_bytes);
        to += step;
      }
  };
  by_line(s.inner_bytes, words, bytes);
}

template <class I>
bool take_any(const void* x, std::span<const I> index, void* out, const PickShape& shape) {
  const std::vector<std::int64_t> places = resolved(index, shape.size);
  if (places.empty()) return index.empty();
  take_resolved(x, places, out, shape);
  return true;
}

// Every line is written and only those that count advance: a mask that nobody can predict costs a
// branch more than the store.
template <class W>
void compact_words(const W* from, const unsigned char* mask, W* to, std::int64_t count) {
  for (std::int64_t i = 0, done = 0; done < count; ++i) {
    to[done] = from[i];
    done += mask[i] != 0 ? 1 : 0;
  }
}

}  // namespace

bool take_lines(const void* x, std::span<const std::int64_t> index, void* out,
                const PickShape& shape) {
  return take_any(x, index, out, shape);
}

bool take_lines(const void* x, std::span<const std::int32_t> index, void* out,
                const PickShape& shape) {
  return take_any(x, index, out, shape);
}

void compact_lines(const void* x, const unsigned char* mask, void* out, const PickShape& s) {
  const auto words = [&]<class W>(W) {
    const W* from = static_cast<const W*>(x);
    W* to = static_cast<W*>(out);
    for (std::int64_t o = 0; o < s.outer; ++o, from += s.size, to += s.count)
      compact_words(from, mask, to, s.count);
  };
  const auto bytes = [&] {
    const auto* from = static_cast<const std::byte*>(x);
    auto* to = static_cast<std::byte*>(out);
    const auto step = static_cast<std::int64_t>(s.inner_bytes);
    for (std::int64_t o = 0; o < s.outer; ++o, from += s.size * step)
      for (std::int64_t i = 0, done = 0; done < s.count; ++i) {
        if (mask[i] == 0) continue;
        std::memcpy(to, from + i * step, s.inner_bytes);
        to += step;
        ++done;
      }
  };
  by_line(s.inner_bytes, words, bytes);
}

}  // namespace gpk::ops
