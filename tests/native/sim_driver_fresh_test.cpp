// Memory of the simulated driver that nobody has written.
#include <string>

#include "sim_driver_fixture.h"

namespace gpk {
namespace {

class SimDriverFreshTest : public SimDriverTest {
 protected:
  static constexpr int kCount = 64;
  static constexpr std::size_t kBytes = kCount * sizeof(float);

  SimDriverFreshTest() {
    cu::SimOptions checked{};
    checked.check = checked.record = 1;
    sim.gpkSimSetOptions(&checked);
    function_ = load_scale();
    sim.gpkSimTakeReport();
  }

  // What a kernel that reads and writes n elements is told of.
  std::string findings(cu::DevicePtr x, int n = kCount, cu::Stream stream = nullptr) {
    EXPECT_EQ(launch_scale(function_, x, 2.0f, n, stream), cu::kSuccess);
    EXPECT_EQ(cu.cuCtxSynchronize(), cu::kSuccess);
    const std::string report = sim.gpkSimTakeReport();
    const std::size_t at = report.find("\"text\":");
    return at == std::string::npos ? "" : report.substr(at);
  }

  cu::Function function_ = nullptr;
};

TEST_F(SimDriverFreshTest, AllocatedMemoryIsUnwritten) {
  const cu::DevicePtr x = allocate(kBytes);
  EXPECT_NE(findings(x).find("read of 4 bytes at byte 0 of allocation"), std::string::npos);
  EXPECT_EQ(findings(x), "");  // the kernel has written it
  cu.cuMemFree(x);
}

TEST_F(SimDriverFreshTest, CopiesAndFillsWriteTheirRange) {
  const cu::DevicePtr x = allocate(2 * kBytes);
  ASSERT_EQ(cu.cuMemsetD32Async(x, 0, kCount / 2, nullptr), cu::kSuccess);
  EXPECT_EQ(findings(x, kCount / 2), "");
  EXPECT_NE(findings(x).find("at byte 128 of allocation"), std::string::npos);
  const std::vector<float> values(kCount, 1.0f);
  ASSERT_EQ(cu.cuMemcpyHtoDAsync(x + kBytes, values.data(), kBytes, nullptr), cu::kSuccess);
  EXPECT_EQ(findings(x, 2 * kCount), "");
  const cu::DevicePtr y = allocate(kBytes);
  ASSERT_EQ(cu.cuMemcpyDtoDAsync(y, x, kBytes, nullptr), cu::kSuccess);
  EXPECT_EQ(findings(y), "");
  cu.cuMemFree(x);
  cu.cuMemFree(y);
}

TEST_F(SimDriverFreshTest, ALaunchWithoutCheckWritesAnything) {
  const cu::DevicePtr x = allocate(kBytes);
  const cu::DevicePtr other = upload(std::vector<float>(kCount, 1.0f));
  cu::SimOptions options{};
  sim.gpkSimGetOptions(&options);
  cu::SimOptions unchecked = options;
  unchecked.check = 0;
  sim.gpkSimSetOptions(&unchecked);
  EXPECT_EQ(findings(other), "");
  sim.gpkSimSetOptions(&options);
  EXPECT_EQ(findings(x), "");
  cu.cuMemFree(x);
  cu.cuMemFree(other);
}

// A pool hands memory out while a kernel before that in the stream still reads it.
TEST_F(SimDriverFreshTest, HandingOutFollowsTheStream) {
  const cu::DevicePtr x = upload(std::vector<float>(kCount, 1.0f));
  const cu::Stream stream = make_stream();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(launch_scale(function_, x, 2.0f, kCount, stream), cu::kSuccess);
  sim.gpkSimHandOut(x, kBytes, kBytes, stream);
  ASSERT_EQ(cu.cuStreamSynchronize(stream), cu::kSuccess);
  EXPECT_EQ(std::string(sim.gpkSimTakeReport()).find("uninitialised"), std::string::npos);
  EXPECT_NE(findings(x, kCount, stream).find("at byte 0 of an array of 256 bytes"),
            std::string::npos);
  cu.cuStreamDestroy(stream);
  cu.cuMemFree(x);
}

TEST_F(SimDriverFreshTest, TheRestOfABlockIsOutOfBounds) {
  const cu::DevicePtr x = upload(std::vector<float>(kCount, 1.0f));
  const cu::Stream stream = make_stream();
  sim.gpkSimHandOut(x, kBytes - 8, kBytes, stream);
  sim.gpkSimMarkMemory(x, kBytes, 1);
  EXPECT_EQ(findings(x, kCount - 2, stream), "");
  const std::string text = findings(x, kCount, stream);
  EXPECT_NE(text.find("0 bytes after the end of an array of 248 bytes"), std::string::npos) << text;
  sim.gpkSimHandOut(x, kBytes, kBytes, stream);  // another array takes the block
  sim.gpkSimMarkMemory(x, kBytes, 1);
  EXPECT_EQ(findings(x, kCount, stream), "");
  cu.cuStreamDestroy(stream);
  cu.cuMemFree(x);
}

TEST_F(SimDriverFreshTest, MappingsOfOthersAreMarkedAtOnce) {
  const cu::DevicePtr x = upload(std::vector<float>(kCount, 1.0f));
  sim.gpkSimMarkMemory(x, kBytes, 0);
  sim.gpkSimMarkMemory(x, kBytes / 2, 1);
  EXPECT_EQ(findings(x, kCount / 2), "");
  EXPECT_NE(findings(x), "");
  cu.cuMemFree(x);
}

}  // namespace
}  // namespace gpk
