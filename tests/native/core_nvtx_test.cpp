#include "core/nvtx.h"

#include "core/launch.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

std::vector<std::string>& events() {
  static auto* list = new std::vector<std::string>;
  return *list;
}

// Stands in for a tool's library: what nvtx::initialize() would have found in the tool's table.
class NvtxTest : public CoreTest {
 protected:
  NvtxTest() {
    events().clear();
    nvtx::detail::g_pop = [] { return events().push_back("pop"), 0; };
    nvtx::detail::g_push = [](const char* name) { return events().push_back(name), 0; };
  }
  ~NvtxTest() override {
    nvtx::detail::g_push = nullptr;
    nvtx::detail::g_pop = nullptr;
  }
};

TEST_F(NvtxTest, RangesNest) {
  EXPECT_TRUE(nvtx::active());
  {
    const nvtx::Range outer("outer");
    const nvtx::Range inner("inner");
  }
  EXPECT_EQ(events(), (std::vector<std::string>{"outer", "inner", "pop", "pop"}));
}

TEST_F(NvtxTest, LaunchesAreRangesWithTheKernelName) {
  launch_args(*load_kernel("rmsnorm"), {}, current_stream(kGpu));
  EXPECT_EQ(events(), (std::vector<std::string>{"rmsnorm", "pop"}));
}

TEST_F(NvtxTest, RangeOpenedBeforeAToolListensIsNotClosed) {
  const auto push = nvtx::detail::g_push.exchange(nullptr);
  EXPECT_FALSE(nvtx::active());
  {
    const nvtx::Range range("unseen");
    nvtx::detail::g_push = push;
  }
  EXPECT_TRUE(events().empty());
}

// The whole protocol with a tool's library, in a separate process (initialize() acts once).
TEST(NvtxDeathTest, AToolReceivesRanges) {
#ifdef GPK_NVTX_INJECTION_PATH
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("NVTX_INJECTION64_PATH", GPK_NVTX_INJECTION_PATH, 1);
        nvtx::initialize();
        if (!nvtx::active()) std::exit(1);
        {
          const nvtx::Range outer("add");
          const nvtx::Range inner("mul");
        }
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "push add.push mul.pop.pop.");
#else
  GTEST_SKIP() << "built without the injection library";
#endif
}

TEST(NvtxDeathTest, AMissingToolIsIgnored) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("NVTX_INJECTION64_PATH", "/nonexistent/tool.so", 1);
        nvtx::initialize();
        std::exit(nvtx::active() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gpk
