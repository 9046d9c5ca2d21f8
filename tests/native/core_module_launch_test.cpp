#include <barrier>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "core/buffer.h"
#include "core/launch.h"
#include "core/memory.h"
#include "core/module.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

class ModuleTest : public CoreTest {};
class LaunchTest : public CoreTest {
 protected:
  static std::string refusal(const Kernel& kernel, const LaunchConfig& config) {
    return message_of<InvalidArgument>([&] { check_launch(kernel, config); });
  }
};

TEST_F(ModuleTest, LoadFailureCarriesTheLog) {
  Context& context = Context::get(0);
  fake::fail_module_load(cu::kInvalidPtx, "ptxas fatal: line 7: no such instruction");
  const auto error = thrown<NvrtcError>([&] { Module::load(context, "bad image", "broken.cu"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), NvrtcCode::kPtxLoadFailed);
  EXPECT_EQ(error->log(), "ptxas fatal: line 7: no such instruction");
  EXPECT_STREQ(error->what(),
               "jit: broken.cu cannot be loaded on Fake GPU (SM 90): CUDA_ERROR_INVALID_PTX\n"
               "ptxas fatal: line 7: no such instruction");
}

TEST_F(ModuleTest, LoadFailureWithoutLogAndWithALongOne) {
  fake::fail_module_load(cu::kNoBinaryForGpu, "");
  EXPECT_EQ(thrown<NvrtcError>([] { load_module(); })->log(), "");
  fake::fail_module_load(cu::kInvalidPtx, std::string(100000, 'x'));
  const auto error = thrown<NvrtcError>([] { load_module(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->log(), std::string(8191, 'x'));
}

TEST_F(ModuleTest, StickyLoadFailureLosesTheDevice) {
  expect_leftovers();
  Context& context = Context::get(0);
  fake::fail_next("cuModuleLoadDataEx", cu::kIllegalAddress);
  EXPECT_THROW(load_module(), CudaError);
  EXPECT_TRUE(context.dead());
}

TEST_F(ModuleTest, KernelKeepsItsModule) {
  auto module = load_module();
  auto kernel = module->kernel("_Z5scalePf", "scale");
  EXPECT_STREQ(kernel->name(), "scale");
  EXPECT_EQ(&kernel->context(), &Context::get(0));
  module.reset();
  EXPECT_EQ(fake::num_live(fake::Kind::kModule), 1u);
  launch_args(*kernel, {}, current_stream(kGpu));
  EXPECT_EQ(fake::launches().at(0).function, "_Z5scalePf");
  kernel.reset();
  unload_dropped_modules();
  EXPECT_EQ(fake::num_live(fake::Kind::kModule), 0u);
}

TEST_F(ModuleTest, MissingKernelAndVariable) {
  const auto module = load_module();
  fake::set_missing("absent");
  const auto error = thrown<NvrtcError>([&] { module->kernel("absent", "gpk::absent<float>"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), NvrtcCode::kFunctionNotFound);
  EXPECT_STREQ(error->what(), "jit: test.cu has no kernel 'gpk::absent<float>'");
  const auto global = thrown<NvrtcError>([&] { module->global("table", "table"); });
  ASSERT_TRUE(global);
  EXPECT_EQ(global->code(), NvrtcCode::kFunctionNotFound);
  EXPECT_CONTAINS(global->what(), "'table'");
}

TEST_F(ModuleTest, KernelsOfPtxAreThoseItHas) {
  const auto module = Module::load(Context::get(0),
                                   ".version 8.0\n.visible .entry twice(\n"
                                   ".param .u64 .ptr .align 1 twice_param_0,\n"
                                   ".param .f32 twice_param_1,\n"
                                   ".param .align 8 .b8 twice_param_2[24]\n)\n{ ret; }",
                                   "ptx");
  EXPECT_THROW(module->kernel("thrice", "thrice"), NvrtcError);
  const auto kernel = module->kernel("twice", "twice");
  const auto params = kernel->params(4);  // one more than there are
  ASSERT_TRUE(params.has_value());
  ASSERT_EQ(params->size(), 3u);
  EXPECT_EQ((*params)[0].bytes, 8u);
  EXPECT_EQ((*params)[1].bytes, 4u);
  EXPECT_EQ((*params)[2].bytes, 24u);
  EXPECT_EQ((*params)[2].offset, 16u);
  EXPECT_EQ(kernel->params(2)->size(), 2u);
}

TEST_F(ModuleTest, ParamsAreUnknownToOldDrivers) {
  static cu::DriverApi old;
  old = fake::api();
  old.cuFuncGetParamInfo = nullptr;
  use_driver(old);
  const auto kernel = load_kernel("k");
  EXPECT_FALSE(kernel->params(1).has_value());
}

TEST_F(ModuleTest, GlobalVariables) {
  fake::set_global("table", 12);
  const auto module = load_module();
  const Module::Global global = module->global("table", "table");
  EXPECT_EQ(global.bytes, 12u);
  const int in[3] = {1, 2, 3};
  int out[3] = {};
  copy_to_device(global.ptr, in, sizeof in, *current_stream(kGpu));
  copy_to_host(out, global.ptr, sizeof out, *current_stream(kGpu));
  EXPECT_EQ(std::memcmp(in, out, sizeof in), 0);
}

TEST_F(ModuleTest, Attributes) {
  fake::set_function_attribute("k", cu::kFuncNumRegs, 168);
  fake::set_function_attribute("k", cu::kFuncLocalBytes, 40);
  fake::set_function_attribute("k", cu::kFuncSharedBytes, 1024);
  fake::set_function_attribute("k", cu::kFuncConstBytes, 12);
  fake::set_function_attribute("k", cu::kFuncMaxThreadsPerBlock, 384);
  fake::set_function_attribute("k", cu::kFuncPtxVersion, 87);
  const auto kernel = load_kernel("k");
  const KernelAttributes& a = kernel->attributes();
  EXPECT_EQ(a.num_regs, 168);
  EXPECT_EQ(a.local_bytes, 40);
  EXPECT_EQ(a.shared_bytes, 1024);
  EXPECT_EQ(a.const_bytes, 12);
  EXPECT_EQ(a.max_threads_per_block, 384);
  EXPECT_EQ(a.ptx_version, 87);
  EXPECT_EQ(a.binary_version, 90);
  EXPECT_EQ(kernel->suggested_block_size(0), 256);
}

TEST_F(ModuleTest, InternedTextsAreShared) {
  const std::string text = "some kernel";
  EXPECT_EQ(intern(text), intern(std::string(text)));
  EXPECT_NE(intern("other kernel"), intern(text));
  EXPECT_STREQ(intern(text), "some kernel");
}

TEST_F(LaunchTest, ArgumentsArriveAndTheKernelRuns) {
  fake::set_param_sizes("scale", {8, 4, 4});
  const auto kernel = load_kernel("scale");
  const auto buffer = Buffer::allocate(kGpu, 3 * sizeof(float));
  const auto stream = Stream::create(kGpu, StreamPriority::kLow);
  float values[3] = {1, 2, 3};
  copy_to_device(buffer->device_ptr(), values, sizeof values, *stream);
  launch_args(*kernel, {.grid = {1, 2, 3}, .block = {32, 2, 1}, .shared_bytes = 64}, stream,
              buffer->device_ptr(), 2.0f, 3);
  copy_to_host(values, buffer->device_ptr(), sizeof values, *stream);
  EXPECT_EQ(values[0], 2.0f);
  EXPECT_EQ(values[2], 6.0f);
  const auto launches = fake::launches();
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].grid[2], 3u);
  EXPECT_EQ(launches[0].block[1], 2u);
  EXPECT_EQ(launches[0].shared_bytes, 64u);
  EXPECT_EQ(launches[0].stream, stream->handle());
  EXPECT_FALSE(launches[0].cooperative);
  EXPECT_FALSE(launches[0].programmatic);
  EXPECT_EQ(fake::num_calls("cuLaunchKernelEx"), 0u);
}

TEST_F(LaunchTest, KernelBodiesOfTests) {
  fake::set_param_sizes("probe", {4});
  int seen = 0;
  fake::set_body("probe", [&](const fake::Launch&, void** params) {
    std::memcpy(&seen, params[0], sizeof seen);
  });
  launch_args(*load_kernel("probe"), {}, current_stream(kGpu), 42);
  EXPECT_EQ(seen, 42);
}

TEST_F(LaunchTest, AttributesGoThroughTheExtendedCall) {
  const auto kernel = load_kernel("k");
  launch_args(*kernel,
              {.grid = {8, 2, 1},
               .block = {64, 1, 1},
               .cluster = {4, 1, 1},
               .shared_bytes = 32,
               .cooperative = true,
               .programmatic = true},
              current_stream(kGpu));
  launch_args(*kernel, {.cooperative = true}, current_stream(kGpu));
  launch_args(*kernel, {.programmatic = true}, current_stream(kGpu));
  const auto launches = fake::launches();
  ASSERT_EQ(launches.size(), 3u);
  EXPECT_EQ(launches[0].cluster[0], 4u);
  EXPECT_EQ(launches[0].cluster[1], 1u);
  EXPECT_EQ(launches[0].grid[0], 8u);
  EXPECT_EQ(launches[0].shared_bytes, 32u);
  EXPECT_TRUE(launches[0].cooperative);
  EXPECT_TRUE(launches[0].programmatic);
  EXPECT_TRUE(launches[1].cooperative);
  EXPECT_FALSE(launches[1].programmatic);
  EXPECT_EQ(launches[1].cluster[0], 1u);
  EXPECT_TRUE(launches[2].programmatic);
  EXPECT_FALSE(launches[2].cooperative);
  EXPECT_EQ(fake::num_calls("cuLaunchKernelEx"), 3u);
  EXPECT_EQ(fake::num_calls("cuLaunchKernel"), 0u);
}

TEST_F(LaunchTest, AttributesNeedANewerDriver) {
  static cu::DriverApi old;
  old = fake::api();
  old.cuLaunchKernelEx = nullptr;
  use_driver(old);
  const auto kernel = load_kernel("k");
  EXPECT_CONTAINS(message_of<InvalidArgument>(
                      [&] { launch_args(*kernel, {.cooperative = true}, current_stream(kGpu)); }),
                  "k: ");
  EXPECT_NO_THROW(launch_args(*kernel, {}, current_stream(kGpu)));
}

TEST_F(LaunchTest, RefusesEmptyAndTooLargeGrids) {
  const auto kernel = load_kernel("k");
  EXPECT_CONTAINS(refusal(*kernel, {.grid = {0, 1, 1}}), "k: grid is (0, 1, 1)");
  EXPECT_CONTAINS(refusal(*kernel, {.grid = {1, 1, 0}}), "k: grid is (1, 1, 0)");
  EXPECT_CONTAINS(refusal(*kernel, {.grid = {1, 65536, 1}}), "(2147483647, 65535, 65535)");
  EXPECT_CONTAINS(refusal(*kernel, {.grid = {1u << 31, 1, 1}}), "grid is (2147483648, 1, 1)");
  EXPECT_NO_THROW(check_launch(*kernel, {.grid = {2147483647, 65535, 65535}}));
}

TEST_F(LaunchTest, RefusesEmptyAndTooLargeBlocks) {
  const auto kernel = load_kernel("k");
  EXPECT_CONTAINS(refusal(*kernel, {.block = {1, 0, 1}}), "k: block is (1, 0, 1)");
  EXPECT_CONTAINS(refusal(*kernel, {.block = {1025, 1, 1}}), "block is (1025, 1, 1)");
  EXPECT_CONTAINS(refusal(*kernel, {.block = {1, 1, 65}}), "(1024, 1024, 64)");
  EXPECT_CONTAINS(refusal(*kernel, {.block = {32, 33, 1}}), "has 1056 threads");
  EXPECT_NO_THROW(check_launch(*kernel, {.block = {32, 32, 1}}));
}

TEST_F(LaunchTest, RefusesMoreThreadsThanTheKernelAllows) {
  fake::set_function_attribute("k", cu::kFuncMaxThreadsPerBlock, 256);
  const auto kernel = load_kernel("k");
  EXPECT_EQ(refusal(*kernel, {.block = {257, 1, 1}}),
            "k: block (257, 1, 1) has 257 threads, this kernel allows 256");
  EXPECT_NO_THROW(check_launch(*kernel, {.block = {256, 1, 1}}));
}

TEST_F(LaunchTest, RefusesClustersOnOldGpus) {
  fake::set_devices({{.name = "Ampere", .sm = 80}});
  const auto kernel = load_kernel("k");
  EXPECT_EQ(refusal(*kernel, {.grid = {2, 1, 1}, .cluster = {2, 1, 1}}),
            "k: cluster is (2, 1, 1), Ampere has no clusters (SM 90 or newer)");
}

TEST_F(LaunchTest, RefusesBadClusters) {
  const auto kernel = load_kernel("k");
  EXPECT_EQ(refusal(*kernel, {.grid = {6, 1, 1}, .cluster = {4, 1, 1}}),
            "k: grid (6, 1, 1) is not a multiple of cluster (4, 1, 1)");
  EXPECT_CONTAINS(refusal(*kernel, {.grid = {32, 1, 1}, .cluster = {32, 1, 1}}), "1 to 16 blocks");
  EXPECT_CONTAINS(refusal(*kernel, {.grid = {32, 1, 1}, .cluster = {2, 0, 0}}), "1 to 16 blocks");
}

TEST_F(LaunchTest, LargeClustersAreAllowedFirst) {
  const auto kernel = load_kernel("k");
  launch_args(*kernel, {.grid = {8, 1, 1}, .cluster = {8, 1, 1}}, current_stream(kGpu));
  EXPECT_EQ(fake::num_calls("cuFuncSetAttribute"), 0u);
  launch_args(*kernel, {.grid = {16, 1, 1}, .cluster = {16, 1, 1}}, current_stream(kGpu));
  EXPECT_EQ(fake::num_calls("cuFuncSetAttribute"), 1u);
}

TEST_F(LaunchTest, LargeSharedMemoryRaisesTheAttributeOnce) {
  const auto kernel = load_kernel("k");
  launch_args(*kernel, {.shared_bytes = 48 * 1024}, current_stream(kGpu));
  EXPECT_EQ(fake::num_calls("cuFuncSetAttribute"), 0u);
  for (int i = 0; i < 3; ++i)
    launch_args(*kernel, {.shared_bytes = 100 * 1024}, current_stream(kGpu));
  launch_args(*kernel, {.shared_bytes = 60 * 1024}, current_stream(kGpu));
  EXPECT_EQ(fake::num_calls("cuFuncSetAttribute"), 1u);
  launch_args(*kernel, {.shared_bytes = 200 * 1024}, current_stream(kGpu));
  EXPECT_EQ(fake::num_calls("cuFuncSetAttribute"), 2u);
}

TEST_F(LaunchTest, StaticSharedMemoryCounts) {
  fake::set_function_attribute("k", cu::kFuncSharedBytes, 8 * 1024);
  const auto kernel = load_kernel("k");
  launch_args(*kernel, {.shared_bytes = 40 * 1024}, current_stream(kGpu));
  EXPECT_EQ(fake::num_calls("cuFuncSetAttribute"), 0u);
  launch_args(*kernel, {.shared_bytes = 219 * 1024}, current_stream(kGpu));  // all of 227 KiB
  EXPECT_EQ(refusal(*kernel, {.shared_bytes = 219 * 1024 + 1}),
            "k: shared_mem is 224257 bytes, Fake GPU has room for 224256");
}

// Raising for a smaller launch must not lower what a larger one was given meanwhile.
TEST_F(LaunchTest, ConcurrentLaunchesNeverLowerTheSharedMemory) {
  constexpr int kRounds = 400;
  std::vector<std::shared_ptr<Kernel>> kernels;
  for (int i = 0; i < kRounds; ++i) kernels.push_back(load_kernel("k"));
  std::barrier start(2);
  std::vector<std::thread> threads;
  for (const std::size_t bytes : {60u * 1024, 200u * 1024})
    threads.emplace_back([&, bytes] {
      for (const auto& kernel : kernels) {
        start.arrive_and_wait();
        for (int i = 0; i < 3; ++i)
          EXPECT_NO_THROW(launch_args(*kernel, {.shared_bytes = bytes}, current_stream(kGpu)));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LaunchTest, RefusedLaunchesDoNotReachTheDriver) {
  const auto kernel = load_kernel("k");
  EXPECT_THROW(launch_args(*kernel, {.grid = {0, 1, 1}}, current_stream(kGpu)), InvalidArgument);
  EXPECT_EQ(fake::num_calls("cuLaunchKernel"), 0u);
  EXPECT_TRUE(Context::get(0).recent_launches().empty());
}

TEST_F(LaunchTest, DriverFailureNamesTheCall) {
  const auto kernel = load_kernel("k");
  fake::fail_next("cuLaunchKernel", cu::kLaunchOutOfResources);
  auto error = thrown<CudaError>([&] { launch_args(*kernel, {}, current_stream(kGpu)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->call(), "cuLaunchKernel");
  fake::fail_next("cuLaunchKernelEx", cu::kInvalidValue);
  error =
      thrown<CudaError>([&] { launch_args(*kernel, {.cooperative = true}, current_stream(kGpu)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->call(), "cuLaunchKernelEx");
}

// In a separate process: the setting is read at the first launch.
TEST_F(LaunchTest, BlockingLaunchesRaiseThemselves) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        set_env("PYGPUKIT_LAUNCH_BLOCKING", "1");
        const auto kernel = load_kernel("guilty");
        fake::fail_next("cuStreamSynchronize", cu::kIllegalAddress);
        std::string message;
        try {
          launch_args(*kernel, {}, current_stream(kGpu));
        } catch (const CudaError& error) {
          message = error.what();
        }
        std::_Exit(contains(message, "guilty<<<") ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gpk
