// DLPack tensors of arrays and arrays over tensors; streams of both sides; memory that is let go of
// when the GPU is done with it.
#include "core/dlpack.h"

#include <cstdint>
#include <thread>
#include <vector>

#include "base/error.h"
#include "core/graph.h"
#include "core/release.h"
#include "core/view.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

class DlpackTest : public CoreTest {};
class ReleaseTest : public CoreTest {};

std::shared_ptr<void> flag_owner(bool& gone) {
  return {&gone, [](void* p) { *static_cast<bool*>(p) = true; }};
}

dl::Tensor tensor_of(std::vector<float>& data, std::vector<std::int64_t>& shape,
                     std::int64_t* strides) {
  return {data.data(),
          {dl::kCpu, 0},
          static_cast<std::int32_t>(shape.size()),
          {dl::kFloat, 32, 1},
          shape.data(),
          strides,
          0};
}

TEST_F(DlpackTest, ExportCarriesLayoutAndKeepsMemory) {
  Array base = Array::empty({4, 6}, DType::kInt16, kCpu);
  const Array view = slice_axis(transpose(base, "test"), 0, 5, 3, -2);
  const std::weak_ptr<Buffer> memory = base.buffer();
  auto* managed = to_dlpack(view, dl::kIsCopied);
  EXPECT_EQ(managed->version.major, 1u);
  EXPECT_EQ(managed->flags, dl::kIsCopied);
  const dl::Tensor& tensor = managed->tensor;
  EXPECT_EQ(tensor.ndim, 2);
  EXPECT_EQ(tensor.data, view.data());
  EXPECT_EQ(tensor.byte_offset, 0u);
  EXPECT_EQ(Dims(std::span<const std::int64_t>(tensor.shape, 2)), (Dims{3, 4}));
  EXPECT_EQ(Dims(std::span<const std::int64_t>(tensor.strides, 2)), (Dims{-2, 6}));
  EXPECT_EQ(tensor.dtype.code, dl::kInt);
  EXPECT_EQ(tensor.dtype.bits, 16);
  EXPECT_EQ(tensor.dtype.lanes, 1);
  EXPECT_EQ(tensor.device.type, dl::kCpu);
  {
    const Array gone = std::move(base);
  }
  EXPECT_FALSE(memory.expired());
  std::thread([&] { managed->deleter(managed); }).join();  // on any thread
}

TEST_F(DlpackTest, MemoryGoesWithTheDeleter) {
  std::weak_ptr<Buffer> memory;
  dl::ManagedTensor* managed = nullptr;
  {
    const Array array = Array::empty({3}, DType::kFloat32, kGpu);
    memory = array.buffer();
    managed = to_dlpack_unversioned(array);
  }
  EXPECT_EQ(managed->tensor.device.type, dl::kCuda);
  EXPECT_FALSE(memory.expired());
  managed->deleter(managed);
  EXPECT_TRUE(memory.expired());
}

TEST_F(DlpackTest, EveryDTypeComesBack) {
  for (const DTypeInfo& row : detail::kDTypes) {
    const Array array = Array::empty({2, 6}, row.dtype, kCpu);
    auto* managed = to_dlpack(array, 0);
    const Array back = from_dlpack(managed->tensor, managed->flags, nullptr, "test");
    EXPECT_EQ(back.dtype(), row.dtype) << row.name;
    EXPECT_EQ(back.shape(), array.shape()) << row.name;
    EXPECT_EQ(back.data(), array.data()) << row.name;
    EXPECT_TRUE(back.is_contiguous()) << row.name;
    managed->deleter(managed);
  }
}

TEST_F(DlpackTest, ImportReadsOffsetsAndStrides) {
  std::vector<float> data(24);
  std::vector<std::int64_t> shape{2, 3};
  dl::Tensor tensor = tensor_of(data, shape, nullptr);
  tensor.byte_offset = 8;
  EXPECT_EQ(from_dlpack(tensor, 0, nullptr, "test").data(), data.data() + 2);
  EXPECT_EQ(from_dlpack(tensor, 0, nullptr, "test").strides(), (Dims{3, 1}));

  std::int64_t strides[] = {8, -2};
  tensor.strides = strides;
  tensor.byte_offset = 4 * sizeof(float);
  const Array array = from_dlpack(tensor, dl::kReadOnly, nullptr, "test");
  EXPECT_EQ(array.data(), data.data() + 4);
  EXPECT_EQ(array.strides(), (Dims{8, -2}));
  EXPECT_EQ(array.buffer()->data(), data.data());  // the lowest element
  EXPECT_EQ(array.buffer()->bytes(), 13 * sizeof(float));
  EXPECT_TRUE(array.buffer()->read_only());
  auto* managed = to_dlpack(array, 0);
  EXPECT_EQ(managed->flags, dl::kReadOnly);
  managed->deleter(managed);
}

TEST_F(DlpackTest, ScalarsAndEmptyTensors) {
  std::vector<float> data(1);
  std::vector<std::int64_t> none;
  EXPECT_EQ(from_dlpack(tensor_of(data, none, nullptr), 0, nullptr, "test").size(), 1);
  std::vector<std::int64_t> empty{3, 0, 5};
  dl::Tensor tensor = tensor_of(data, empty, nullptr);
  tensor.data = nullptr;
  const Array array = from_dlpack(tensor, 0, nullptr, "test");
  EXPECT_EQ(array.shape(), (Dims{3, 0, 5}));
  auto* managed = to_dlpack(array, 0);
  EXPECT_EQ(managed->tensor.data, nullptr);
  managed->deleter(managed);
}

TEST_F(DlpackTest, PairsOfFourBits) {
  std::vector<std::uint8_t> data(6);
  std::int64_t shape[] = {2, 3};
  dl::Tensor tensor{data.data(), {dl::kCpu, 0}, 2, {dl::kFloat4E2M1FN, 4, 2}, shape, nullptr, 0};
  const Array pairs = from_dlpack(tensor, 0, nullptr, "test");
  EXPECT_EQ(pairs.shape(), (Dims{2, 6}));
  EXPECT_EQ(pairs.dtype(), DType::kFloat4E2M1FN);
  tensor.dtype = {dl::kInt, 4, 1};
  EXPECT_EQ(from_dlpack(tensor, 0, nullptr, "test").shape(), (Dims{2, 3}));
  EXPECT_THROW(from_dlpack(tensor, dl::kSubbytePadded, nullptr, "test"), ExchangeError);
  std::int64_t strides[] = {4, 1};
  tensor.strides = strides;
  EXPECT_THROW(from_dlpack(tensor, 0, nullptr, "test"), ExchangeError);
}

TEST_F(DlpackTest, RefusesWhatItDoesNotHave) {
  std::vector<float> data(8);
  std::vector<std::int64_t> shape{2};
  const auto refused = [&](auto change) {
    dl::Tensor tensor = tensor_of(data, shape, nullptr);
    change(tensor);
    bool gone = false;
    EXPECT_EQ(message_of<ExchangeError>([&] {
                from_dlpack(tensor, 0, flag_owner(gone), "take");
              }).substr(0, 6),
              "take: ");
  };
  refused([](dl::Tensor& t) { t.dtype.lanes = 4; });
  refused([](dl::Tensor& t) { t.dtype.bits = 80; });
  refused([](dl::Tensor& t) { t.dtype.code = 3; });
  refused([](dl::Tensor& t) { t.device.type = 10; });
  refused([](dl::Tensor& t) { t.ndim = 33; });
  refused([](dl::Tensor& t) { t.byte_offset = 2; });
  std::int64_t wide[] = {std::int64_t{1} << 62};
  refused([&](dl::Tensor& t) { t.strides = wide; });
  shape[0] = -2;
  EXPECT_THROW(from_dlpack(tensor_of(data, shape, nullptr), 0, nullptr, "take"), InvalidArgument);
}

TEST_F(DlpackTest, ReadOnlyNeedsFlags) {
  const Array array = Array::empty({2}, DType::kFloat32, kCpu);
  array.buffer()->set_read_only();
  EXPECT_CONTAINS(message_of<ExchangeError>([&] { to_dlpack_unversioned(array); }), "max_version");
}

TEST_F(DlpackTest, TheConsumersStreamWaits) {
  const auto ours = Stream::create(kGpu, StreamPriority::kLow);
  const auto theirs = Stream::create(kGpu, StreamPriority::kLow);
  const Array array = Array::empty({2}, DType::kFloat32, kGpu);
  array.buffer()->mark_use(ours);
  const auto waits = [&](std::int64_t stream) {
    const auto before = fake::num_calls("cuStreamWaitEvent");
    order_for_consumer(array, stream, "test");
    return fake::num_calls("cuStreamWaitEvent") - before;
  };
  EXPECT_EQ(waits(-1), 0u);
  EXPECT_EQ(waits(1), 1u);  // for `ours`; the memory's home is the default stream itself
  EXPECT_EQ(waits(static_cast<std::int64_t>(theirs->handle_value())), 2u);
  EXPECT_EQ(waits(2), 2u);
  const auto before = fake::num_calls("cuStreamWaitEvent");
  wait_for_producer(kGpu, static_cast<std::int64_t>(theirs->handle_value()), "test");
  wait_for_producer(kGpu, 1, "test");  // the current stream is that one
  EXPECT_EQ(fake::num_calls("cuStreamWaitEvent") - before, 1u);
}

TEST_F(DlpackTest, NotDuringACapture) {
  const Array array = Array::empty({2}, DType::kFloat32, kGpu);
  Graph graph(kGpu);
  graph.begin_capture();
  EXPECT_THROW(order_for_consumer(array, 1, "test"), CaptureError);
  EXPECT_THROW(wait_for_producer(kGpu, 1, "test"), CaptureError);
  order_for_consumer(array, -1, "test");
  graph.abandon_capture();
}

TEST_F(DlpackTest, MemoryTellsItsDevice) {
  const Array array = Array::empty({2}, DType::kFloat32, kGpu);
  EXPECT_EQ(device_of_memory(array.data(), "test"), kGpu);
  const int local = 0;
  EXPECT_THROW(device_of_memory(&local, "test"), ExchangeError);
}

TEST_F(ReleaseTest, NowWhenNothingRuns) {
  bool gone = false;
  release_after({}, flag_owner(gone));
  EXPECT_TRUE(gone);
  EXPECT_FALSE(releases_pending());
}

TEST_F(ReleaseTest, LaterWhileTheStreamIsBusy) {
  bool gone = false;
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  fake::set_busy(stream->handle(), true);
  {
    const auto buffer = Buffer::wrap(kGpu, nullptr, 0, flag_owner(gone));
    buffer->mark_use(stream);
  }
  EXPECT_FALSE(gone);
  EXPECT_TRUE(releases_pending());
  release_finished();
  EXPECT_FALSE(gone);
  stream->synchronize();
  release_finished();
  EXPECT_TRUE(gone);
  EXPECT_FALSE(releases_pending());
}

TEST_F(ReleaseTest, AnAllocationLooksAfterIt) {
  bool gone = false;
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  fake::set_busy(stream->handle(), true);
  release_after({stream}, flag_owner(gone));
  EXPECT_FALSE(gone);
  stream->synchronize();
  const auto buffer = Buffer::allocate(kGpu, 16);
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace gpk
