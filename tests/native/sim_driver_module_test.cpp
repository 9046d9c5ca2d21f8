// Devices, modules, functions, launches, tensor maps and green contexts of the simulated driver.
#include <dlfcn.h>

#include <cstring>

#include "sim/tensor_map.h"
#include "sim_driver_fixture.h"

namespace gpk {
namespace {

using SimModuleTest = SimDriverTest;

TEST_F(SimModuleTest, EveryFunctionHasItsExportedName) {
  void* library = dlopen(GPK_SIM_PATH, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
#define GPK_CU(name, version, symbol, need, params) \
  EXPECT_NE(dlsym(library, symbol), nullptr) << #name;
#include "core/driver_functions.def"
#undef GPK_CU
}

TEST_F(SimModuleTest, TheDeviceSaysWhatItIs) {
  char name[64] = {};
  EXPECT_EQ(cu.cuDeviceGetName(name, sizeof name, 0), cu::kSuccess);
  EXPECT_EQ(std::string(name).rfind("sim:", 0), 0u) << name;
  int value = 0;
  EXPECT_EQ(cu.cuDeviceGetAttribute(&value, cu::kAttrComputeCapabilityMajor, 0), cu::kSuccess);
  EXPECT_EQ(value, 9);
  EXPECT_EQ(cu.cuDeviceGetAttribute(&value, cu::kAttrMaxSharedPerBlockOptin, 0), cu::kSuccess);
  EXPECT_EQ(value, 227 * 1024);
  EXPECT_EQ(cu.cuDeviceGetAttribute(&value, 9999, 0), cu::kInvalidValue);
  EXPECT_NE(cu.cuDeviceGetName(name, sizeof name, 1), cu::kSuccess);
}

TEST_F(SimModuleTest, MachineCodeIsRefusedWithAReason) {
  char log[256] = {};
  int options[] = {cu::kJitErrorLog, cu::kJitErrorLogBytes};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  const char elf[] =
      "\x7f"
      "ELF";
  cu::Module made = nullptr;
  EXPECT_EQ(cu.cuModuleLoadDataEx(&made, elf, 2, options, values), cu::kNoBinaryForGpu);
  EXPECT_NE(std::string(log).find("PTX"), std::string::npos) << log;
}

TEST_F(SimModuleTest, AnErrorInPtxIsNamed) {
  char log[256] = {};
  int options[] = {cu::kJitErrorLog, cu::kJitErrorLogBytes};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  cu::Module made = nullptr;
  EXPECT_EQ(cu.cuModuleLoadDataEx(&made, "no ptx at all", 2, options, values), cu::kInvalidPtx);
  EXPECT_NE(std::string(log).find("line 1"), std::string::npos) << log;
}

TEST_F(SimModuleTest, FunctionsAndVariables) {
  const cu::Function scale = load_scale();
  cu::Function other = nullptr;
  EXPECT_EQ(cu.cuModuleGetFunction(&other, module, "scale"), cu::kSuccess);
  EXPECT_EQ(other, scale);
  EXPECT_EQ(cu.cuModuleGetFunction(&other, module, "nothing"), cu::kNotFound);
  std::size_t offset = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(cu.cuFuncGetParamInfo(scale, 2, &offset, &bytes), cu::kSuccess);
  EXPECT_EQ(offset, 12u);
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(cu.cuFuncGetParamInfo(scale, 3, &offset, &bytes), cu::kInvalidValue);
  cu::DevicePtr table = 0;
  EXPECT_EQ(cu.cuModuleGetGlobal(&table, &bytes, module, "table"), cu::kSuccess);
  EXPECT_EQ(bytes, 16u);
  EXPECT_EQ(cu.cuMemsetD32Async(table, 0x3f800000, 4, nullptr), cu::kSuccess);
  EXPECT_EQ(launch_scale(scale, table, 2.0F, 4), cu::kSuccess);
  EXPECT_EQ(download(table, 4), std::vector<float>(4, 2.0F));
  EXPECT_EQ(cu.cuModuleGetGlobal(&table, &bytes, module, "nothing"), cu::kNotFound);
  EXPECT_EQ(cu.cuModuleUnload(module), cu::kSuccess);
  EXPECT_EQ(launch_scale(scale, table, 2.0F, 4), cu::kInvalidHandle);
}

TEST_F(SimModuleTest, LaunchesAGpuWouldRefuse) {
  const cu::Function scale = load_scale();
  cu::DevicePtr x = upload({1.0F});
  float factor = 1.0F;
  int n = 1;
  void* params[] = {&x, &factor, &n};
  const auto launch = [&](unsigned grid, unsigned block, unsigned shared) {
    return cu.cuLaunchKernel(scale, grid, 1, 1, block, 1, 1, shared, nullptr, params, nullptr);
  };
  EXPECT_EQ(launch(0, 32, 0), cu::kInvalidValue);
  EXPECT_EQ(launch(1, 1025, 0), cu::kInvalidValue);
  EXPECT_EQ(launch(1, 32, 49 * 1024), cu::kInvalidValue);
  EXPECT_EQ(cu.cuFuncSetAttribute(scale, cu::kFuncMaxDynamicSharedBytes, 100 * 1024), cu::kSuccess);
  EXPECT_EQ(launch(1, 32, 49 * 1024), cu::kSuccess);
  EXPECT_EQ(cu.cuFuncSetAttribute(scale, cu::kFuncMaxDynamicSharedBytes, 1 << 20),
            cu::kInvalidValue);
  EXPECT_EQ(cu.cuLaunchKernel(scale, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr),
            cu::kInvalidValue);
  EXPECT_EQ(cu.cuCtxSynchronize(), cu::kSuccess);
  cu.cuMemFree(x);
}

TEST_F(SimModuleTest, ParametersAsOneBuffer) {
  const cu::Function scale = load_scale();
  const cu::DevicePtr x = upload(std::vector<float>(4, 1.0F));
  struct {
    cu::DevicePtr x;
    float factor;
    int n;
  } buffer{x, 8.0F, 4};
  std::size_t bytes = sizeof buffer;
  void* extra[] = {reinterpret_cast<void*>(1), &buffer, reinterpret_cast<void*>(2), &bytes,
                   nullptr};
  EXPECT_EQ(cu.cuLaunchKernel(scale, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra), cu::kSuccess);
  EXPECT_EQ(download(x, 4), std::vector<float>(4, 8.0F));
  cu.cuMemFree(x);
}

TEST_F(SimModuleTest, OccupancyFillsTheThreadsOfAnSm) {
  const cu::Function scale = load_scale();
  int grid = 0;
  int block = 0;
  EXPECT_EQ(cu.cuOccupancyMaxPotentialBlockSize(&grid, &block, scale, nullptr, 0, 0), cu::kSuccess);
  EXPECT_EQ(block, 1024);
  EXPECT_EQ(grid, 2 * 132);
  EXPECT_EQ(cu.cuOccupancyMaxPotentialBlockSize(&grid, &block, scale, nullptr, 0, 256),
            cu::kSuccess);
  EXPECT_EQ(block, 256);
}

TEST_F(SimModuleTest, PtxPassesThroughTheLinker) {
  cu::LinkState link = nullptr;
  ASSERT_EQ(cu.cuLinkCreate(0, nullptr, nullptr, &link), cu::kSuccess);
  EXPECT_EQ(cu.cuLinkAddData(link, cu::kJitInputPtx, const_cast<char*>(kScalePtx),
                             std::strlen(kScalePtx), "scale", 0, nullptr, nullptr),
            cu::kSuccess);
  void* image = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(cu.cuLinkComplete(link, &image, &bytes), cu::kSuccess);
  cu::Module made = nullptr;
  EXPECT_EQ(cu.cuModuleLoadDataEx(&made, image, 0, nullptr, nullptr), cu::kSuccess);
  EXPECT_EQ(cu.cuLinkDestroy(link), cu::kSuccess);
  EXPECT_EQ(cu.cuModuleUnload(made), cu::kSuccess);
}

TEST_F(SimModuleTest, ARecordedFaultDoesNotLoseTheContext) {
  const cu::Function scale = load_scale();
  const cu::DevicePtr x = upload(std::vector<float>(63, 1.0F));
  cu::SimOptions options{};
  sim.gpkSimGetOptions(&options);
  cu::SimOptions recording = options;
  recording.record = 1;
  sim.gpkSimSetOptions(&recording);
  sim.gpkSimTakeReport();
  EXPECT_EQ(launch_scale(scale, x, 2.0F, 64), cu::kSuccess);
  EXPECT_EQ(cu.cuCtxSynchronize(), cu::kSuccess);
  const std::string report = sim.gpkSimTakeReport();
  EXPECT_NE(report.find("\"kind\":\"out of bounds\""), std::string::npos) << report;
  EXPECT_NE(report.find("\"ok\":false"), std::string::npos) << report;
  EXPECT_EQ(std::string(sim.gpkSimTakeReport()), "[]");
  sim.gpkSimSetOptions(&options);
  cu.cuMemFree(x);
}

TEST_F(SimModuleTest, TensorMapsFollowTheRules) {
  cu::TensorMap map{};
  alignas(16) static float data[64];
  const std::uint64_t sizes[] = {16, 4, 1};
  const std::uint64_t pitches[] = {64, 256};
  const std::uint32_t box[] = {8, 4, 1};
  const std::uint32_t steps[] = {1, 1, 1};
  const auto encode = [&](void* address, const std::uint32_t* boxes, int swizzle) {
    return cu.cuTensorMapEncodeTiled(&map, cu::kTensorFloat32, 3, address, sizes, pitches, boxes,
                                     steps, 0, swizzle, 0, 0);
  };
  EXPECT_EQ(encode(data, box, 1), cu::kSuccess);
  sim::SimTensorMap kept;
  std::memcpy(static_cast<void*>(&kept), &map, sizeof kept);
  EXPECT_EQ(kept.magic, sim::SimTensorMap::kMagic);
  EXPECT_EQ(kept.rank, 3);
  EXPECT_EQ(kept.sizes[0], 16u);
  EXPECT_EQ(kept.pitches[1], 256u);
  EXPECT_EQ(kept.box[1], 4);
  EXPECT_EQ(kept.swizzle, 1);
  EXPECT_EQ(kept.address, reinterpret_cast<std::uintptr_t>(data));
  EXPECT_EQ(encode(data + 1, box, 1), cu::kInvalidValue);  // alignment
  const std::uint32_t wide[] = {16, 4, 1};
  EXPECT_EQ(encode(data, wide, 1), cu::kInvalidValue);  // a row wider than the swizzle
  const std::uint32_t large[] = {8, 257, 1};
  EXPECT_EQ(encode(data, large, 0), cu::kInvalidValue);
}

TEST_F(SimModuleTest, GreenContextsSplitTheSms) {
  cu::DevResource all{};
  ASSERT_EQ(cu.cuDeviceGetDevResource(0, &all, cu::kResourceSm), cu::kSuccess);
  EXPECT_EQ(all.sm_count, 132u);
  cu::DevResource groups[2] = {};
  cu::DevResource rest{};
  unsigned count = 2;
  ASSERT_EQ(cu.cuDevSmResourceSplitByCount(groups, &count, &all, &rest, 0, 30), cu::kSuccess);
  EXPECT_EQ(groups[0].sm_count, 32u);
  EXPECT_EQ(rest.sm_count, 68u);
  cu::ResourceDesc desc = nullptr;
  ASSERT_EQ(cu.cuDevResourceGenerateDesc(&desc, groups, 1), cu::kSuccess);
  cu::GreenCtx green = nullptr;
  ASSERT_EQ(cu.cuGreenCtxCreate(&green, desc, 0, cu::kGreenDefaultStream), cu::kSuccess);
  cu::Stream stream = nullptr;
  ASSERT_EQ(cu.cuGreenCtxStreamCreate(&stream, green, cu::kStreamNonBlocking, 0), cu::kSuccess);
  const cu::DevicePtr x = upload({2.0F});
  EXPECT_EQ(launch_scale(load_scale(), x, 2.0F, 1, stream), cu::kSuccess);
  EXPECT_EQ(download(x, 1, stream), std::vector<float>{4.0F});
  cu.cuStreamDestroy(stream);
  EXPECT_EQ(cu.cuGreenCtxDestroy(green), cu::kSuccess);
  cu.cuMemFree(x);
}

}  // namespace
}  // namespace gpk
