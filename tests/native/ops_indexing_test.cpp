// Keys, and the layouts of indexed copies: run here word by word as the kernels do.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "base/error.h"
#include "core/view.h"
#include "ops/indexing/key.h"
#include "ops/indexing/layout.h"

namespace gpk::ops::indexing {
namespace {

constexpr Device kCpu{DeviceKind::kCpu, 0};
using Kind = IndexItem::Kind;

IndexItem integer(std::int64_t at) { return {Kind::kInteger, at, 0, 0, nullptr}; }
IndexItem slice(std::int64_t start, std::int64_t stop, std::int64_t step = 1) {
  return {Kind::kSlice, start, stop, step, nullptr};
}
IndexItem all() { return slice(0, INT64_MAX); }
IndexItem item(Kind kind, const Array* array = nullptr) { return {kind, 0, 0, 0, array}; }

Array iota(const Dims& shape, DType dtype = DType::kInt32) {
  Array array = Array::empty(shape, dtype, kCpu);
  auto* bytes = static_cast<unsigned char*>(array.data());
  std::memset(bytes, 0, array.nbytes());
  for (std::int64_t i = 0; i < array.size(); ++i)
    std::memcpy(bytes + i * static_cast<std::int64_t>(itemsize(dtype)), &i,
                std::min<std::size_t>(itemsize(dtype), 8));
  return array;
}

Array indices(const Dims& shape, std::vector<std::int64_t> values) {
  Array array = Array::empty(shape, DType::kInt64, kCpu);
  std::memcpy(array.data(), values.data(), array.nbytes());
  return array;
}

std::string refused(const Array& array, std::vector<IndexItem> items) {
  try {
    select(array, items, "getitem");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(SelectView, ShapesStridesAndOffset) {
  const Array a = iota({7, 11, 13});
  const std::vector<IndexItem> items = {slice(1, 6, 2), item(Kind::kNewAxis), integer(-1),
                                        slice(INT64_MAX, INT64_MIN, -3)};
  const Array view = select_view(a, items, "getitem");
  EXPECT_EQ(view.shape(), (Dims{3, 1, 5}));
  EXPECT_EQ(view.strides(), (Dims{286, 0, -3}));
  EXPECT_EQ(view.offset_elems(), 143 + 130 + 12);
  EXPECT_EQ(view.buffer(), a.buffer());
}

TEST(SelectView, SlicesOutsideAreEmptyAndStayInside) {
  const Array a = iota({5});
  const std::vector<IndexItem> items = {slice(9, 20)};
  const Array view = select_view(a, items, "getitem");
  EXPECT_EQ(view.shape(), Dims{0});
  EXPECT_EQ(view.offset_elems(), 0);
  const std::vector<IndexItem> far = {slice(4, INT64_MAX, INT64_MAX)};
  EXPECT_EQ(select_view(a, far, "getitem").strides(), Dims{1});
}

TEST(Select, Errors) {
  const Array a = iota({3, 4});
  const Array mask = Array::empty({2}, DType::kBool, kCpu);
  EXPECT_EQ(refused(a, {integer(3)}), "getitem: index 3 is out of bounds for axis 0 with size 3");
  EXPECT_EQ(refused(a, {all(), integer(-5)}),
            "getitem: index -5 is out of bounds for axis 1 with size 4");
  EXPECT_EQ(refused(a, {integer(0), integer(0), integer(0)}),
            "getitem: too many indices for array: array is 2-dimensional, but 3 were indexed");
  EXPECT_EQ(refused(a, {item(Kind::kEllipsis), item(Kind::kEllipsis)}),
            "getitem: an index can only have a single ellipsis ('...')");
  EXPECT_EQ(refused(a, {item(Kind::kMask, &mask)}),
            "getitem: boolean index did not match indexed array along axis 0; size of axis is 3 "
            "but size of corresponding boolean axis is 2");
}

TEST(Select, WhereTheAxesOfIndexArraysGo) {
  const Array a = iota({3, 4, 5, 6});
  const Array i = indices({2}, {0, 1});
  const IndexItem pick = item(Kind::kArray, &i);
  const auto at = [&](std::vector<IndexItem> items) { return select(a, items, "getitem").at; };
  EXPECT_EQ(at({all(), pick, pick}), 1);
  EXPECT_EQ(at({pick, all(), pick}), 0);
  EXPECT_EQ(at({all(), pick, all(), pick}), 0);
  EXPECT_EQ(at({all(), integer(0), pick}), 1);
  EXPECT_EQ(at({all(), all(), integer(0), pick}), 2);
  EXPECT_EQ(at({integer(0), all(), pick}), 0);
  EXPECT_EQ(at({item(Kind::kNewAxis), all(), pick}), 2);
  EXPECT_EQ(at({all(), pick, item(Kind::kEllipsis), pick}), 0);
  EXPECT_EQ(at({all(), all(), pick, item(Kind::kEllipsis)}), 2);
}

TEST(Collapse, JoinsWhatIsOne) {
  const Array a = iota({100, 4, 16});
  const Array i = indices({5}, {1, 2, 3, 4, 5});
  WideLayout layout = make_layout(a, {{i, 0, 0}}, Dims{5}, 0);
  const Array out = iota({5, 4, 16});
  set_plain_side(layout, out.strides());
  collapse(layout);
  EXPECT_EQ(to_string(layout), "layout(5:a0b64i1, 64:a1b1i0, step=64 of 100)");
  EXPECT_EQ(widen(layout, 4, 0, 0, false), 16u);
  EXPECT_EQ(to_string(layout), "layout(5:a0b16i1, 16:a1b1i0, step=16 of 100)");
  EXPECT_EQ(layout.total, 80);
}

TEST(Widen, LooksAtRowsStridesStepsAndAddresses) {
  const Array a = iota({100, 6});
  const Array i = indices({5}, {1, 2, 3, 4, 5});
  const auto word = [&](const Array& view, std::uintptr_t x, std::uintptr_t y) {
    WideLayout layout = make_layout(view, {{i, 0, 0}}, Dims{5}, 0);
    set_plain_side(layout, contiguous_strides(Dims{5, view.shape()[1]}));
    collapse(layout);
    return widen(layout, 4, x, y, false);
  };
  EXPECT_EQ(word(a, 256, 256), 8u);  // rows of 24 bytes
  EXPECT_EQ(word(a, 260, 256), 4u);
  EXPECT_EQ(word(a, 256, 260), 4u);
  EXPECT_EQ(word(slice_axis(a, 1, 0, 4, 1), 256, 256), 8u);  // rows of 16, 24 apart
  EXPECT_EQ(word(slice_axis(a, 1, 0, 3, 2), 256, 256), 4u);  // not contiguous
  EXPECT_EQ(word(slice_axis(a, 1, 0, 3, 1), 256, 256), 4u);
}

TEST(Layout, LargeCountsDoNotOverflow) {
  const Array one = iota({1});
  const Dims shape{std::int64_t{1} << 33, 4};
  const Array huge(shape, contiguous_strides(shape), DType::kFloat32, one.buffer(), 0);
  const Dims count{std::int64_t{1} << 32};
  const Array i(count, Dims{1}, DType::kInt64, one.buffer(), 0);
  WideLayout layout = make_layout(huge, {{i, 0, 0}}, count, 0);
  set_plain_side(layout, Dims{4, 1});
  collapse(layout);
  EXPECT_EQ(widen(layout, 4, 0, 0, false), 16u);
  EXPECT_EQ(layout.total, std::int64_t{1} << 32);
  EXPECT_EQ(layout.rank, 1);
}

// One word after the other, as move_kernel does it.
void run(const WideLayout& l, std::size_t word, const void* a, void* b) {
  for (std::int64_t n = 0; n < l.total; ++n) {
    std::int64_t rest = n;
    std::int64_t from = 0;
    std::int64_t to = 0;
    std::int64_t at[4] = {};
    for (int d = l.rank - 1; d >= 0; --d) {
      const std::int64_t c = d > 0 ? rest % l.size[d] : rest;
      rest /= l.size[d];
      from += c * l.a[d];
      to += c * l.b[d];
      for (int k = 0; k < l.num_indexes; ++k) at[k] += c * l.index[k].stride[d];
    }
    for (int k = 0; k < l.num_indexes; ++k) {
      std::int64_t i = static_cast<const std::int64_t*>(l.index[k].data)[at[k]];
      i += i < 0 ? l.index[k].size : 0;
      from += i * l.index[k].step;
    }
    const auto width = static_cast<std::int64_t>(word);
    std::memcpy(static_cast<char*>(b) + to * width, static_cast<const char*>(a) + from * width,
                word);
  }
}

std::int32_t element(const Array& array, const std::vector<std::int64_t>& coordinate) {
  std::int64_t offset = 0;
  for (int i = 0; i < array.ndim(); ++i)
    offset += coordinate[static_cast<std::size_t>(i)] * array.strides()[i];
  return static_cast<const std::int32_t*>(array.data())[offset];
}

// view[..., index, ...] element by element, against the layout.
void compare(const Array& view, const std::vector<AxisIndex>& picks, const Dims& middle, int at) {
  const Dims shape = result_shape(view.shape(), picked_axes(picks), middle, at, "test");
  const Array out = Array::empty(shape, DType::kInt32, kCpu);
  WideLayout layout = make_layout(view, picks, middle, at);
  set_plain_side(layout, out.strides());
  collapse(layout);
  const std::size_t word = widen(layout, 4, reinterpret_cast<std::uintptr_t>(view.data()),
                                 reinterpret_cast<std::uintptr_t>(out.data()), false);
  run(layout, word, view.data(), out.data());
  for (std::int64_t n = 0; n < out.size(); ++n) {
    std::vector<std::int64_t> place(static_cast<std::size_t>(shape.size()));
    std::int64_t rest = n;
    for (int d = shape.size() - 1; d >= 0; --d) {
      place[static_cast<std::size_t>(d)] = rest % shape[d];
      rest /= shape[d];
    }
    std::vector<std::int64_t> source(static_cast<std::size_t>(view.ndim()));
    int from = 0;
    for (int i = 0; i < view.ndim(); ++i) {
      if ((picked_axes(picks) >> i & 1u) != 0) continue;
      if (from == at) from += middle.size();
      source[static_cast<std::size_t>(i)] = place[static_cast<std::size_t>(from++)];
    }
    for (const AxisIndex& pick : picks) {
      const Array index = broadcast_to(pick.array, middle, "test");
      std::int64_t offset = 0;
      for (int i = 0; i < middle.size(); ++i)
        offset += place[static_cast<std::size_t>(at + i)] * index.strides()[i];
      const std::int64_t value = static_cast<const std::int64_t*>(index.data())[offset];
      source[static_cast<std::size_t>(pick.axis)] =
          value < 0 ? value + view.shape()[pick.axis] : value;
    }
    ASSERT_EQ(static_cast<const std::int32_t*>(out.data())[n], element(view, source))
        << to_string(layout);
  }
}

TEST(Layout, RandomSelections) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 300; ++round) {
    const int rank = 1 + below(4);
    Dims shape = Dims::filled(rank, 0);
    for (int i = 0; i < rank; ++i) shape[i] = below(3) == 0 ? 4 : 1 + below(5);
    Array view = iota(shape);
    for (int i = 0; i < rank; ++i)
      if (below(4) == 0) view = slice_axis(view, i, shape[i] - 1, shape[i], -1);
    if (below(3) == 0) view = transpose(view, "test");
    const Dims middle{1 + below(3), 1 + below(4)};
    std::vector<AxisIndex> picks;
    for (int axis = 0; axis < rank; ++axis) {
      if (below(2) != 0 || (axis == rank - 1 && picks.empty() && below(2) != 0)) continue;
      const Dims dims = below(3) == 0   ? Dims{middle[1]}
                        : below(2) != 0 ? middle
                                        : Dims{middle[0], 1};
      std::vector<std::int64_t> values;
      for (std::int64_t i = num_elements(dims, "test"); i > 0; --i) {
        const int size = static_cast<int>(view.shape()[axis]);
        values.push_back(below(2 * size) - size);
      }
      picks.push_back({indices(dims, values), axis, axis});
    }
    const int num_free = rank - static_cast<int>(picks.size());
    compare(view, picks, middle, below(num_free + 1));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace gpk::ops::indexing
