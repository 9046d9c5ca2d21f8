// What kernels report about indices, and when the host raises.
#include <gtest/gtest.h>

#include "base/error.h"
#include "core/array.h"
#include "core/device_report.h"
#include "core/event.h"
#include "core/graph.h"
#include "device/host_copy.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

class DeviceReportTest : public CoreTest {
 protected:
  DeviceReportTest() { expect_leftovers(); }  // a report lives as long as its context

  static Context& context() { return Context::get(0); }

  // What the first thread of a kernel does that encounters a bad index.
  static void report(const char* op, std::int64_t index, std::int64_t size, int axis) {
    const kernels::IndexReport handle = context().report().handle(op);
    if (std::exchange(*handle.gate, 1u) != 0) return;
    *handle.record = {1, axis, op, index, size};
  }
};

TEST_F(DeviceReportTest, NothingIsMadeBeforeTheFirstUse) {
  context().default_stream()->synchronize();
  EXPECT_EQ(fake::num_calls("cuMemHostAlloc"), 0u);
  context().report();
  context().report();
  EXPECT_EQ(fake::num_calls("cuMemHostAlloc"), 1u);
}

TEST_F(DeviceReportTest, StreamSynchronizeThrowsOnce) {
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  context().report();
  stream->synchronize();
  report("take", 7, 3, 1);
  const auto error = thrown<InvalidArgument>([&] { stream->synchronize(); });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "take: index 7 is out of bounds for axis 1 with size 3");
  EXPECT_EQ(error->kind(), InvalidArgument::Kind::kIndex);
  stream->synchronize();
}

TEST_F(DeviceReportTest, TheFirstReportCountsAndTheNextOneIsHeardAgain) {
  report("take", 7, 3, 0);
  report("getitem", -9, 3, 0);
  EXPECT_EQ(message_of<InvalidArgument>([] { context().synchronize(); }),
            "take: index 7 is out of bounds for axis 0 with size 3");
  context().synchronize();
  report("getitem", -9, 3, 0);
  EXPECT_EQ(message_of<InvalidArgument>([] { context().synchronize(); }),
            "getitem: index -9 is out of bounds for axis 0 with size 3");
}

TEST_F(DeviceReportTest, PositionsOfAWholeArrayAreWrongValues) {
  report("unravel_index", 60, 12, -1);
  const auto error = thrown<InvalidArgument>([] { context().synchronize(); });
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "unravel_index: index 60 is out of bounds for array with size 12");
  EXPECT_EQ(error->kind(), InvalidArgument::Kind::kValue);
}

TEST_F(DeviceReportTest, EventsAndCopiesToTheHostLookToo) {
  const Array array = Array::empty({4}, DType::kFloat32, kGpu);
  float host[4];
  report("take", 1, 1, 0);
  EXPECT_CONTAINS(message_of<InvalidArgument>([&] { device::to_host(array, host); }),
                  "take: index 1");
  const auto event = Event::create(kGpu, {});
  event->record(*context().default_stream());
  report("take", 2, 1, 0);
  EXPECT_CONTAINS(message_of<InvalidArgument>([&] { event->synchronize(); }), "take: index 2");
}

TEST_F(DeviceReportTest, CanBeMadeDuringACapture) {
  Graph graph(kGpu);
  const Array array = Array::empty({4}, DType::kFloat32, kGpu);
  const Array other = Array::empty({4}, DType::kFloat32, kGpu);
  graph.begin_capture();
  context().report();
  copy(array, other, "copy");
  graph.end_capture();
  EXPECT_EQ(graph.num_nodes(), 1u);
}

}  // namespace
}  // namespace gpk
