#include "core/view.h"

#include <numeric>
#include <vector>

#include "base/error.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

// 0, 1, 2, ... in host memory.
Array counting(Dims shape, DType dtype = DType::kInt32) {
  Array array = Array::empty(std::move(shape), dtype, kCpu);
  if (dtype == DType::kInt32)
    std::iota(static_cast<std::int32_t*>(array.data()),
              static_cast<std::int32_t*>(array.data()) + array.size(), 0);
  return array;
}

// All elements in C order.
std::vector<std::int32_t> elements(const Array& array) {
  std::vector<std::int32_t> values;
  std::vector<std::int64_t> index(static_cast<std::size_t>(array.ndim()), 0);
  for (std::int64_t n = 0; n < array.size(); ++n) {
    std::int64_t at = 0;
    for (int i = 0; i < array.ndim(); ++i)
      at += index[static_cast<std::size_t>(i)] * array.strides()[i];
    values.push_back(static_cast<const std::int32_t*>(array.data())[at]);
    for (int i = array.ndim() - 1; i >= 0; --i) {
      if (++index[static_cast<std::size_t>(i)] < array.shape()[i]) break;
      index[static_cast<std::size_t>(i)] = 0;
    }
  }
  return values;
}

using Values = std::vector<std::int32_t>;

TEST(ViewTest, Axes) {
  EXPECT_EQ(normalize_axis(-1, 3, "sum"), 2);
  EXPECT_EQ(normalize_axis(0, 1, "sum"), 0);
  const auto error = thrown<InvalidArgument>([] { normalize_axis(3, 2, "sum"); });
  EXPECT_STREQ(error->what(), "sum: axis 3 is out of bounds for array of dimension 2");
  EXPECT_EQ(error->kind(), InvalidArgument::Kind::kAxis);
  EXPECT_THROW(normalize_axis(0, 0, "sum"), InvalidArgument);
  EXPECT_THROW(normalize_axis(-3, 2, "sum"), InvalidArgument);
  EXPECT_THROW(normalize_axis(INT64_MIN, 2, "sum"), InvalidArgument);
  EXPECT_EQ(normalize_axes({-1, 0}, 3, "sum"), (Dims{2, 0}));
  EXPECT_EQ(message_of<InvalidArgument>([] { normalize_axes({1, -1}, 2, "sum"); }),
            "sum: axis -1 is given twice in (1, -1)");
}

TEST(ViewTest, Slices) {
  const Array x = counting({3, 4});
  EXPECT_EQ(elements(slice_axis(x, 1, 1, 2, 2)), (Values{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(elements(slice_axis(x, 0, 2, 3, -1)), (Values{8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3}));
  const Array none = slice_axis(x, 0, 3, 0, 1);
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.offset_elems(), 0);  // not past the end
  EXPECT_EQ(elements(slice_axis(slice_axis(x, 0, 1, 2, 1), 1, 3, 4, -1)),
            (Values{7, 6, 5, 4, 11, 10, 9, 8}));
}

TEST(ViewTest, Permutations) {
  const Array x = counting({2, 3});
  EXPECT_EQ(elements(transpose(x, "transpose")), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(permute(counting({2, 3, 4}), {2, 0, -2}, "permute_dims").shape(), (Dims{4, 2, 3}));
  EXPECT_EQ(message_of<InvalidArgument>([&] { permute(x, {0}, "permute_dims"); }),
            "permute_dims: axes (0,) has 1 entries, the array has shape (2, 3)");
  EXPECT_THROW(permute(x, {0, 0}, "permute_dims"), InvalidArgument);
}

TEST(ViewTest, AxesOfSizeOne) {
  const Array x = counting({2, 3});
  EXPECT_EQ(expand_dims(x, {0, -1}, "expand_dims").shape(), (Dims{1, 2, 3, 1}));
  EXPECT_EQ(expand_dims(x, {1}, "expand_dims").shape(), (Dims{2, 1, 3}));
  EXPECT_TRUE(expand_dims(x, {1}, "expand_dims").is_contiguous());
  EXPECT_EQ(squeeze(expand_dims(x, {0, 2}, "e"), {0, 2}, "squeeze").shape(), (Dims{2, 3}));
  EXPECT_EQ(message_of<InvalidArgument>([&] { squeeze(x, {1}, "squeeze"); }),
            "squeeze: axis 1 of shape (2, 3) does not have size 1");
  EXPECT_THROW(expand_dims(counting(Dims::filled(32, 1)), {0}, "expand_dims"), InvalidArgument);
}

TEST(ViewTest, Broadcasts) {
  const Array row = counting({3});
  EXPECT_EQ(elements(broadcast_to(row, {2, 3}, "b")), (Values{0, 1, 2, 0, 1, 2}));
  const Array column = counting({2, 1});
  EXPECT_EQ(elements(broadcast_to(column, {2, 2, 3}, "b")),
            (Values{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(broadcast_to(counting({1}), {0}, "b").size(), 0);
  EXPECT_EQ(message_of<InvalidArgument>([&] { broadcast_to(row, {3, 2}, "broadcast_to"); }),
            "broadcast_to: shape (3,) cannot be broadcast to shape (3, 2)");
  EXPECT_THROW(broadcast_to(counting({1, 1}), {4}, "b"), InvalidArgument);
  EXPECT_THROW(broadcast_to(row, {INT64_MAX, 3}, "b"), InvalidArgument);

  EXPECT_EQ(broadcast_shapes({3, 1}, {1, 4}, "add"), (Dims{3, 4}));
  EXPECT_EQ(broadcast_shapes({5, 1, 4}, {4}, "add"), (Dims{5, 1, 4}));
  EXPECT_EQ(broadcast_shapes({}, {2, 3}, "add"), (Dims{2, 3}));
  EXPECT_EQ(broadcast_shapes({1, 0}, {7, 1}, "add"), (Dims{7, 0}));
  EXPECT_EQ(message_of<InvalidArgument>([] { broadcast_shapes({2, 3}, {3, 2}, "add"); }),
            "add: operands could not be broadcast together with shapes (2, 3) and (3, 2)");
  EXPECT_THROW(broadcast_shapes({0}, {2}, "add"), InvalidArgument);
}

TEST(ViewTest, ShapesWithAnUnknownSize) {
  EXPECT_EQ(resolve_shape({2, -1}, 6, "reshape"), (Dims{2, 3}));
  EXPECT_EQ(resolve_shape({-1}, 0, "reshape"), (Dims{0}));
  EXPECT_EQ(resolve_shape({}, 1, "reshape"), Dims{});
  EXPECT_EQ(message_of<InvalidArgument>([] { resolve_shape({4, -1}, 6, "reshape"); }),
            "reshape: cannot reshape array of size 6 into shape (4, -1)");
  EXPECT_THROW(resolve_shape({-1, -1}, 4, "reshape"), InvalidArgument);
  EXPECT_THROW(resolve_shape({-2, -2}, 4, "reshape"), InvalidArgument);
  EXPECT_THROW(resolve_shape({0, -1}, 0, "reshape"), InvalidArgument);  // any size would do
  EXPECT_THROW(resolve_shape({INT64_MAX, 3}, 4, "reshape"), InvalidArgument);
  EXPECT_THROW(resolve_shape({5}, 4, "reshape"), InvalidArgument);
}

TEST(ViewTest, Reshapes) {
  const Array x = counting({4, 6});
  EXPECT_EQ(elements(*try_reshape(x, {3, 8})), elements(x));
  const Array left = slice_axis(x, 1, 0, 3, 1);  // rows with gaps
  EXPECT_FALSE(try_reshape(left, {12}));
  EXPECT_EQ(elements(*try_reshape(left, {2, 2, 3})), elements(left));
  EXPECT_EQ(elements(*try_reshape(left, {4, 1, 3, 1})), elements(left));
  const Array even = slice_axis(x, 1, 0, 3, 2);
  EXPECT_EQ(elements(*try_reshape(even, {12})), elements(even));  // one step all along
  const Array backwards = slice_axis(slice_axis(x, 0, 3, 4, -1), 1, 5, 6, -1);
  EXPECT_EQ(elements(*try_reshape(backwards, {2, 12})), elements(backwards));
  EXPECT_FALSE(try_reshape(transpose(x, "t"), {24}));
  EXPECT_EQ(elements(*try_reshape(transpose(x, "t"), {6, 2, 2})), elements(transpose(x, "t")));
  const Array spread = broadcast_to(counting({1}), {4}, "b");
  EXPECT_EQ(elements(*try_reshape(spread, {2, 2})), (Values{0, 0, 0, 0}));
  const Array nothing = slice_axis(transpose(x, "t"), 0, 0, 0, 1);
  EXPECT_EQ(try_reshape(nothing, {4, 0})->size(), 0);
}

TEST(ViewTest, Diagonals) {
  const Array x = counting({3, 4});
  EXPECT_EQ(elements(diagonal(x, 0, 0, 1, "diagonal")), (Values{0, 5, 10}));
  EXPECT_EQ(elements(diagonal(x, 2, 0, 1, "diagonal")), (Values{2, 7}));
  EXPECT_EQ(elements(diagonal(x, -1, 0, 1, "diagonal")), (Values{4, 9}));
  EXPECT_EQ(diagonal(x, 9, 0, 1, "diagonal").size(), 0);
  EXPECT_EQ(diagonal(counting({2, 3, 3}), 0, 1, 2, "diagonal").shape(), (Dims{2, 3}));
}

TEST(ViewTest, PartsOfComplexNumbers) {
  const Array z = Array::empty({2, 3}, DType::kComplex64, kCpu);
  const Array imaginary = complex_part(slice_axis(z, 1, 1, 2, 1), true);
  EXPECT_EQ(imaginary.dtype(), DType::kFloat32);
  EXPECT_EQ(imaginary.strides(), (Dims{6, 2}));
  EXPECT_EQ(imaginary.offset_elems(), 3);
  EXPECT_EQ(complex_part(Array::empty({1}, DType::kComplex128, kCpu), false).dtype(),
            DType::kFloat64);
}

TEST(ViewTest, FourBitTypesAreNotSliced) {
  const Array x = Array::empty({4, 2}, DType::kInt4, kCpu);
  EXPECT_THROW(slice_axis(x, 0, 1, 2, 1), InvalidArgument);
  EXPECT_THROW(transpose(x, "transpose"), InvalidArgument);
  EXPECT_THROW(broadcast_to(x, {2, 4, 2}, "b"), InvalidArgument);
  EXPECT_EQ(try_reshape(x, {8})->shape(), (Dims{8}));
  EXPECT_EQ(permute(x, {0, 1}, "p").shape(), (Dims{4, 2}));
}

TEST(ViewTest, Overlap) {
  const Array x = counting({10});
  const Array low = slice_axis(x, 0, 0, 5, 1);
  const Array high = slice_axis(x, 0, 5, 5, 1);
  EXPECT_FALSE(may_overlap(low, high));
  EXPECT_TRUE(may_overlap(low, slice_axis(x, 0, 4, 5, 1)));
  EXPECT_TRUE(may_overlap(low, slice_axis(x, 0, 9, 5, -2)));
  EXPECT_FALSE(may_overlap(high, slice_axis(x, 0, 4, 5, -1)));
  EXPECT_FALSE(may_overlap(x, counting({10})));
  EXPECT_FALSE(may_overlap(x, slice_axis(x, 0, 0, 0, 1)));

  EXPECT_TRUE(same_place(x, x));
  EXPECT_TRUE(same_place(x, reinterpret(x, DType::kFloat32)));
  EXPECT_FALSE(same_place(x, reinterpret(x, DType::kInt16)));
  EXPECT_FALSE(same_place(x, slice_axis(x, 0, 9, 10, -1)));
  EXPECT_FALSE(same_place(low, high));
  EXPECT_TRUE(same_place(expand_dims(x, {0}, "e"), *try_reshape(x, {1, 10})));
}

TEST(ViewTest, DensePermutations) {
  const Array x = counting({2, 3, 4});
  EXPECT_TRUE(is_dense_permuted(x));
  EXPECT_TRUE(is_dense_permuted(permute(x, {1, 2, 0}, "p")));
  EXPECT_TRUE(is_dense_permuted(expand_dims(transpose(x, "t"), {1}, "e")));
  EXPECT_TRUE(is_dense_permuted(counting({})));
  EXPECT_FALSE(is_dense_permuted(slice_axis(x, 2, 0, 2, 1)));
  EXPECT_FALSE(is_dense_permuted(slice_axis(x, 0, 1, 2, -1)));
  EXPECT_FALSE(is_dense_permuted(broadcast_to(counting({3}), {2, 3}, "b")));
}

}  // namespace
}  // namespace gpk
