#include "core/array.h"

#include <cstring>
#include <limits>

#include "base/error.h"
#include "core/memory.h"
#include "core/stream.h"
#include "device/host_copy.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

TEST(ShapeTest, Text) {
  EXPECT_EQ(to_string(Dims{}), "()");
  EXPECT_EQ(to_string(Dims{4}), "(4,)");
  EXPECT_EQ(to_string(Dims{2, -3}), "(2, -3)");
}

TEST(ShapeTest, NumElements) {
  EXPECT_EQ(num_elements({}, "op"), 1);
  EXPECT_EQ(num_elements({2, 3, 4}, "op"), 24);
  EXPECT_EQ(num_elements({2, 0, 4}, "op"), 0);
  EXPECT_EQ(num_elements({std::numeric_limits<std::int64_t>::max()}, "op"),
            std::numeric_limits<std::int64_t>::max());
}

TEST(ShapeTest, NumElementsRefusesOverflowAndNegativeSizes) {
  EXPECT_EQ(message_of<InvalidArgument>([] { num_elements({kHuge, 2}, "zeros"); }),
            "zeros: shape (4611686018427387904, 2) has more than 2**63 - 1 elements");
  EXPECT_EQ(message_of<InvalidArgument>([] { num_elements({2, -1}, "zeros"); }),
            "zeros: shape (2, -1) has a negative size");
  EXPECT_THROW(num_elements({0, -1}, "zeros"), InvalidArgument);
}

TEST(ShapeTest, ContiguousStrides) {
  EXPECT_EQ(contiguous_strides({}), Dims{});
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Dims{4, 4, 1}));
}

TEST(ShapeTest, RankLimit) {
  const std::vector<std::int64_t> most(32, 1);
  const std::vector<std::int64_t> too_many(33, 1);
  const Dims dims{std::span<const std::int64_t>(most)};
  EXPECT_EQ(dims.size(), kMaxRank);
  EXPECT_EQ(message_of<InvalidArgument>([&] { Dims{std::span<const std::int64_t>(too_many)}; }),
            "shape: 33 dimensions given, at most 32 are supported");
  EXPECT_EQ(Dims::filled(32, 7)[31], 7);
}

TEST(ShapeTest, CopiesAndMovesBeyondTheInlineSize) {
  for (const int rank : {0, 1, 8, 9, 32}) {
    Dims original = Dims::filled(rank, 3);
    for (int i = 0; i < rank; ++i) original[i] = i;
    Dims copy = original;
    EXPECT_EQ(copy, original);
    Dims assigned{1, 2};
    assigned = copy;
    EXPECT_EQ(assigned, original);
    if (rank > 0) {
      copy[rank - 1] = -1;
      EXPECT_NE(copy, original);
    }
    const Dims moved = std::move(assigned);
    EXPECT_EQ(moved, original);
    const Dims& self = original;
    original = self;
    EXPECT_EQ(original, moved);
  }
}

TEST(ShapeTest, MovedFromDimsMayBeUsedAgain) {
  Dims large = Dims::filled(9, 3);
  const Dims taken = std::move(large);
  large = Dims{1, 2};
  EXPECT_EQ(large, (Dims{1, 2}));
  EXPECT_EQ(taken.size(), 9);
}

class ArrayTest : public CoreTest {};
class ArrayOn : public CoreTest, public ::testing::WithParamInterface<Device> {};

TEST_P(ArrayOn, EmptyIsContiguous) {
  const Array array = Array::empty({2, 3}, DType::kFloat32, GetParam());
  EXPECT_EQ(array.shape(), (Dims{2, 3}));
  EXPECT_EQ(array.strides(), (Dims{3, 1}));
  EXPECT_EQ(array.ndim(), 2);
  EXPECT_EQ(array.size(), 6);
  EXPECT_EQ(array.nbytes(), 24u);
  EXPECT_EQ(array.dtype(), DType::kFloat32);
  EXPECT_EQ(array.device(), GetParam());
  EXPECT_EQ(array.offset_elems(), 0);
  EXPECT_TRUE(array.is_contiguous());
  EXPECT_NE(array.data(), nullptr);
}

TEST_P(ArrayOn, RoundTrip) {
  std::vector<std::int32_t> values(4099);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i * 7);
  const Array array = device::from_host(values.data(), {4099}, DType::kInt32, GetParam());
  std::vector<std::int32_t> back(4099);
  const std::vector<std::int32_t> expected = values;
  values.assign(4099, 0);  // the source may change at once
  device::to_host(array, back.data());
  EXPECT_EQ(back, expected);
}

TEST_P(ArrayOn, ScalarsAndPackedTypes) {
  const double pi = 3.14;
  double back = 0;
  device::to_host(device::from_host(&pi, {}, DType::kFloat64, GetParam()), &back);
  EXPECT_EQ(back, pi);
  const unsigned char packed[2] = {0x21, 0x03};
  unsigned char unpacked[2] = {};
  const Array nibbles = device::from_host(packed, {3}, DType::kUInt4, GetParam());
  EXPECT_EQ(nibbles.nbytes(), 2u);
  device::to_host(nibbles, unpacked);
  EXPECT_EQ(std::memcmp(packed, unpacked, 2), 0);
}

TEST_P(ArrayOn, ZeroSize) {
  const Array array = device::from_host(nullptr, {3, 0, 2}, DType::kFloat32, GetParam());
  EXPECT_EQ(array.size(), 0);
  EXPECT_EQ(array.nbytes(), 0u);
  EXPECT_TRUE(array.is_contiguous());
  EXPECT_NO_THROW(device::to_host(array, nullptr));
  EXPECT_EQ(fake::num_live(fake::Kind::kMemory), 0u);
}

TEST_P(ArrayOn, ViewsShareAndReadFromTheirOffset) {
  const float values[6] = {0, 1, 2, 3, 4, 5};
  const Array base = device::from_host(values, {2, 3}, DType::kFloat32, GetParam());
  const Array row({3}, {1}, DType::kFloat32, base.buffer(), 3);
  EXPECT_EQ(row.data(), static_cast<char*>(base.data()) + 12);
  EXPECT_EQ(row.device_ptr(), base.device_ptr() + 12);
  float back[3] = {};
  device::to_host(row, back);
  EXPECT_EQ(back[0], 3.0f);
  EXPECT_EQ(back[2], 5.0f);
  const Array column({2}, {3}, DType::kFloat32, base.buffer(), 1);
  EXPECT_FALSE(column.is_contiguous());
  EXPECT_EQ(message_of<InvalidArgument>([&] { device::to_host(column, back); }),
            "to_numpy: the array is not contiguous");
}

TEST_P(ArrayOn, BadShapesNameTheOp) {
  EXPECT_EQ(
      message_of<InvalidArgument>([] { Array::empty({-1}, DType::kInt8, GetParam(), "zeros"); }),
      "zeros: shape (-1,) has a negative size");
  EXPECT_CONTAINS(message_of<InvalidArgument>(
                      [] { Array::empty({kHuge}, DType::kComplex128, GetParam(), "zeros"); }),
                  "zeros: shape (4611686018427387904,) needs more than");
  EXPECT_THROW(Array::empty({kHuge, 4}, DType::kInt8, GetParam()), InvalidArgument);
}

TEST_P(ArrayOn, TooLargeIsOutOfMemory) {
  const auto error =
      thrown<OutOfMemory>([] { Array::empty({kHuge / 16}, DType::kFloat64, GetParam()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->numbers().asked_bytes, static_cast<std::size_t>(kHuge) / 2);
}

INSTANTIATE_TEST_SUITE_P(Devices, ArrayOn, ::testing::Values(kCpu, kGpu),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });

TEST_F(ArrayTest, Contiguity) {
  const auto buffer = Buffer::allocate(kCpu, 1024);
  const auto contiguous = [&](Dims shape, Dims strides) {
    return Array(std::move(shape), std::move(strides), DType::kInt8, buffer, 0).is_contiguous();
  };
  EXPECT_TRUE(contiguous({2, 3}, {3, 1}));
  EXPECT_FALSE(contiguous({2, 3}, {1, 2}));
  EXPECT_FALSE(contiguous({2, 3}, {4, 1}));
  EXPECT_FALSE(contiguous({3}, {-1}));
  EXPECT_FALSE(contiguous({3}, {0}));
  EXPECT_TRUE(contiguous({1, 3, 1}, {99, 1, 77}));  // strides of size 1 do not matter
  EXPECT_TRUE(contiguous({1, 1}, {5, 5}));
  EXPECT_TRUE(contiguous({0, 3}, {1, 7}));
  EXPECT_TRUE(contiguous({}, {}));
}

TEST_F(ArrayTest, CopyingAnArrayCopiesTheView) {
  const Array array = Array::empty({8}, DType::kFloat32, kGpu);
  const Array copy = array;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(copy.buffer(), array.buffer());
  EXPECT_EQ(fake::num_live(fake::Kind::kMemory), 1u);
}

TEST_F(ArrayTest, HostCopiesRunOnTheCurrentStream) {
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  const StreamScope scope(stream);
  const float in = 1.0f;
  float out = 0.0f;
  const Array array = device::from_host(&in, {1}, DType::kFloat32, kGpu);
  device::to_host(array, &out);
  const auto calls = fake::stream_calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].function, "cuMemcpyHtoDAsync");
  EXPECT_EQ(calls[0].stream, stream->handle());
  EXPECT_EQ(calls[1].function, "cuMemcpyDtoHAsync");
  EXPECT_EQ(calls[1].stream, stream->handle());
}

TEST_F(ArrayTest, ToHostWaitsForTheStreamsOfTheArray) {
  const float in = 1.0f;
  float out = 0.0f;
  const auto producer = Stream::create(kGpu, StreamPriority::kLow);
  const auto user = Stream::create(kGpu, StreamPriority::kLow);
  std::optional<Array> array;
  {
    const StreamScope scope(producer);
    array = device::from_host(&in, {1}, DType::kFloat32, kGpu);
  }
  array->buffer()->mark_use(user);
  const auto reader = Stream::create(kGpu, StreamPriority::kLow);
  const StreamScope scope(reader);
  const std::size_t before = fake::stream_calls().size();
  device::to_host(*array, &out);
  std::vector<std::string> functions;
  const auto calls = fake::stream_calls();
  for (std::size_t i = before; i < calls.size(); ++i) functions.push_back(calls[i].function);
  EXPECT_EQ(functions,
            (std::vector<std::string>{"cuEventRecord", "cuStreamWaitEvent", "cuEventRecord",
                                      "cuStreamWaitEvent", "cuMemcpyDtoHAsync"}));
  EXPECT_EQ(calls[before].stream, producer->handle());
  EXPECT_EQ(calls[before + 2].stream, user->handle());
  EXPECT_EQ(fake::num_calls("cuStreamSynchronize"), 1u);
  EXPECT_EQ(fake::num_calls("cuCtxSynchronize"), 0u);
}

TEST_F(ArrayTest, FromPinnedMemoryWaitsForTheCopy) {
  const auto pinned = PinnedMemory::allocate(kGpu, 16);
  std::memset(pinned->data(), 1, 16);
  const Array array = device::from_host(pinned->data(), {16}, DType::kInt8, kGpu);
  EXPECT_EQ(fake::num_calls("cuStreamSynchronize"), 1u);
  const char pageable[16] = {};
  const Array other = device::from_host(pageable, {16}, DType::kInt8, kGpu);
  EXPECT_EQ(fake::num_calls("cuStreamSynchronize"), 1u);
}

}  // namespace
}  // namespace gpk
