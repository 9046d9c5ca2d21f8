#include "core/driver.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "core/buffer.h"
#include "core/device.h"
#include "core/event.h"
#include "core/launch.h"
#include "core/library.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

class DriverTest : public CoreTest {
 protected:
  // Runs `function` in a forked child; true if it returned true there.
  template <class Function>
  static bool in_child(const Function& function) {
    const pid_t child = fork();
    if (child == 0) {
      bool good = false;
      try {
        good = function();
      } catch (...) {  // not good
      }
      _exit(good ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
};

TEST_F(DriverTest, FakeDriverIsUsable) {
  const DriverInfo& info = driver_info();
  EXPECT_TRUE(info.loaded);
  EXPECT_EQ(info.version, 13000);
  EXPECT_EQ(info.device_count, 1);
  EXPECT_EQ(info.problem, "");
  EXPECT_EQ(&driver(), &fake::api());
  EXPECT_EQ(fake::num_calls("cuInit"), 1u);
}

TEST_F(DriverTest, MissingLibraryExplainsWhatWasTried) {
  set_env("PYGPUKIT_CUDA_DRIVER", "/nonexistent/libcuda.so");
  use_real_driver();
  const DriverInfo& info = driver_info();
  EXPECT_FALSE(info.loaded);
  EXPECT_EQ(info.device_count, 0);
  ASSERT_EQ(info.tried.size(), 1u);
  EXPECT_CONTAINS(info.tried[0], "/nonexistent/libcuda.so: ");
  EXPECT_CONTAINS(info.tried[0], "No such file");
  EXPECT_CONTAINS(info.problem, "CUDA driver not detected");
  EXPECT_CONTAINS(info.problem, info.tried[0]);
  EXPECT_EQ(message_of<GpuUnavailable>([] { driver(); }), info.problem);
  EXPECT_EQ(cuda_device_count(), 0);
}

TEST_F(DriverTest, LibraryThatIsNoDriver) {
  set_env("PYGPUKIT_CUDA_DRIVER", "libm.so.6");
  use_real_driver();
  EXPECT_CONTAINS(driver_info().problem, "cuDriverGetVersion");
  EXPECT_FALSE(driver_info().loaded);
}

TEST_F(DriverTest, InitFailureIsNamed) {
  fake::fail_next("cuInit", 999);
  EXPECT_EQ(driver_info().problem, "CUDA driver not usable: cuInit failed with CUDA error 999");
  EXPECT_THROW(driver(), GpuUnavailable);
  use_driver(fake::api());
  fake::fail_next("cuInit", cu::kOutOfMemory);
  EXPECT_CONTAINS(driver_info().problem, "CUDA_ERROR_OUT_OF_MEMORY");
}

TEST_F(DriverTest, NoDevices) {
  fake::set_devices({});
  EXPECT_EQ(driver_info().problem, "No GPU devices found (cuDeviceGetCount == 0)");
  EXPECT_EQ(cuda_device_count(), 0);
  EXPECT_THROW(driver(), GpuUnavailable);
  EXPECT_THROW(Context::get(0), GpuUnavailable);
}

TEST_F(DriverTest, DeviceCountFailure) {
  fake::fail_next("cuDeviceGetCount", cu::kInvalidValue);
  EXPECT_EQ(driver_info().problem, "cuDeviceGetCount failed with CUDA_ERROR_INVALID_VALUE");
}

TEST_F(DriverTest, ChildForkedAfterUseIsToldToSpawn) {
  Context::get(0);
  EXPECT_TRUE(in_child([] {
    if (!forked_after_use()) return false;
    try {
      driver();
    } catch (const GpuUnavailable& error) {
      return contains(error.what(), "spawn");
    }
    return false;
  }));
  EXPECT_FALSE(forked_after_use());
  EXPECT_NO_THROW(driver());
}

TEST_F(DriverTest, HandlesMayBeDroppedInAForkedChild) {
  auto stream = Stream::create(kGpu, StreamPriority::kLow);
  auto event = Event::create(kGpu, {});
  auto array = Buffer::allocate(kGpu, 100);
  auto pinned = PinnedMemory::allocate(kGpu, 100);
  auto kernel = load_kernel("k");
  const std::size_t calls = fake::num_calls("cuCtxGetCurrent");
  EXPECT_TRUE(in_child([&] {
    stream.reset();
    event.reset();
    array.reset();
    pinned.reset();
    kernel.reset();
    return fake::num_calls("cuCtxGetCurrent") == calls;  // the driver was left alone
  }));
}

TEST_F(DriverTest, ForkBeforeUseIsFine) {
  EXPECT_TRUE(in_child([] {
    return !forked_after_use() && driver_info().device_count == 1 && &driver() == &fake::api();
  }));
}

#ifdef GPK_FAKE_CUDA_PATH
// The fake as a separate library, controlled through its exports.
class DriverLibraryTest : public DriverTest {
 protected:
  DriverLibraryTest() {
    std::string why;
    library_ = SharedLibrary::open(GPK_FAKE_CUDA_PATH, &why);
    EXPECT_TRUE(library_) << why;
    set_env("PYGPUKIT_CUDA_DRIVER", GPK_FAKE_CUDA_PATH);
    set_version(13000);
    use_real_driver();
  }
  ~DriverLibraryTest() override { set_version(13000); }

  void set_version(int version) {
    reinterpret_cast<void (*)(int)>(library_.symbol("gpk_fake_set_driver_version"))(version);
  }

  SharedLibrary library_;
};

TEST_F(DriverLibraryTest, LoadsAndRuns) {
  const DriverInfo& info = driver_info();
  EXPECT_EQ(info.problem, "");
  EXPECT_EQ(info.version, 13000);
  EXPECT_CONTAINS(info.path, "gpk_fake_cuda");
  EXPECT_EQ(info.tried, (std::vector<std::string>{GPK_FAKE_CUDA_PATH ": loaded"}));
  EXPECT_EQ(device_traits(kGpu).name, "Fake GPU");
  EXPECT_NE(&driver(), &fake::api());
  EXPECT_NE(driver().cuFuncGetParamInfo, nullptr);
  const auto num_launches = reinterpret_cast<int (*)()>(library_.symbol("gpk_fake_num_launches"));
  const int before = num_launches();
  launch_args(*load_kernel("k"), {}, current_stream(kGpu));
  EXPECT_EQ(num_launches(), before + 1);
  EXPECT_TRUE(fake::launches().empty());  // the linked fake is another one
}

TEST_F(DriverLibraryTest, OptionalFunctionsOfNewerDriversAreLeftOut) {
  set_version(12000);
  EXPECT_EQ(driver_info().problem, "");
  EXPECT_EQ(driver().cuFuncGetParamInfo, nullptr);      // 12.4
  EXPECT_EQ(driver().cuStreamGetCaptureInfo, nullptr);  // 12.3
  EXPECT_NE(driver().cuLaunchKernelEx, nullptr);        // 11.6
}

TEST_F(DriverLibraryTest, TooOldDriverNamesWhatItLacks) {
  set_version(11000);
  EXPECT_EQ(driver_info().problem,
            "the CUDA driver (version 11000) is too old: it lacks cuGraphInstantiateWithFlags");
  EXPECT_FALSE(driver_info().loaded);
  EXPECT_THROW(driver(), GpuUnavailable);
}
#endif

}  // namespace
}  // namespace gpk
