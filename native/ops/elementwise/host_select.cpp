#include "ops/elementwise/host_select.h"

namespace gpk::ops {
namespace {

// By masks: conditions that nobody can predict cost a branch more than the copy.
template <class W>
W choose(bool condition, W x, W y) {
  const W mask = static_cast<W>(W{0} - static_cast<W>(condition));
  return static_cast<W>((x & mask) | (y & static_cast<W>(~mask)));
}

struct TwoWords {
  std::uint64_t low, high;
};
TwoWords choose(bool condition, TwoWords x, TwoWords y) {
  return {choose(condition, x.low, y.low), choose(condition, x.high, y.high)};
}

template <class W, bool kOneX, bool kOneY>
void select_loop(const bool* condition, const W* x, const W* y, W* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = choose(condition[i], x[kOneX ? 0 : i], y[kOneY ? 0 : i]);
}

template <class W>
void select_words(const bool* condition, const Selectable& x, const Selectable& y, void* out,
                  std::int64_t count) {
  const auto* const first = static_cast<const W*>(x.data);
  const auto* const second = static_cast<const W*>(y.data);
  auto* const to = static_cast<W*>(out);
  if (x.is_one && y.is_one) {
    select_loop<W, true, true>(condition, first, second, to, count);
  } else if (x.is_one) {
    select_loop<W, true, false>(condition, first, second, to, count);
  } else if (y.is_one) {
    select_loop<W, false, true>(condition, first, second, to, count);
  } else {
    select_loop<W, false, false>(condition, first, second, to, count);
  }
}

}  // namespace

void select(const bool* condition, const Selectable& x, const Selectable& y, void* out,
            std::int64_t count, std::size_t element_bytes) {
  switch (element_bytes) {
    case 1: return select_words<std::uint8_t>(condition, x, y, out, count);
    case 2: return select_words<std::uint16_t>(condition, x, y, out, count);
    case 4: return select_words<std::uint32_t>(condition, x, y, out, count);
    case 8: return select_words<std::uint64_t>(condition, x, y, out, count);
    default: return select_words<TwoWords>(condition, x, y, out, count);
  }
}

}  // namespace gpk::ops
