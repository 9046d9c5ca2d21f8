// What tests of the simulated driver share: the library, found and called as core does, and a
// kernel in PTX.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/driver_table.h"
#include "core/library.h"
#include "core/sim_driver.h"

namespace gpk {

// x[i] *= a for i < n; `table` is a variable of 16 bytes.
inline constexpr const char* kScalePtx = R"(.version 7.0
.target sm_80
.address_size 64
.visible .global .align 4 .b8 table[16];
.visible .entry scale(
  .param .u64 scale_param_0,
  .param .f32 scale_param_1,
  .param .u32 scale_param_2
)
{
  .reg .pred %p<2>;
  .reg .f32 %f<4>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [scale_param_0];
  ld.param.f32 %f1, [scale_param_1];
  ld.param.u32 %r2, [scale_param_2];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r1, %r3, %r4, %r5;
  setp.ge.s32 %p1, %r1, %r2;
  @%p1 bra $done;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.s32 %rd3, %r1, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4];
  mul.f32 %f3, %f2, %f1;
  st.global.f32 [%rd4], %f3;
$done:
  ret;
}
)";

class SimDriverTest : public ::testing::Test {
 protected:
  SimDriverTest() {
    std::string why;
    const SharedLibrary library = SharedLibrary::open(GPK_SIM_PATH, &why);
    EXPECT_TRUE(library) << why;
    EXPECT_EQ(fill_driver_table(library, 13000, cu), "");
    EXPECT_TRUE(fill_sim_table(library, sim));
    EXPECT_EQ(cu.cuInit(0), cu::kSuccess);
    EXPECT_EQ(cu.cuDevicePrimaryCtxRetain(&context, 0), cu::kSuccess);
    EXPECT_EQ(cu.cuCtxSetCurrent(context), cu::kSuccess);
    sim.gpkSimGetOptions(&saved_);
    cu::SimOptions quiet = saved_;
    quiet.log = 0;
    sim.gpkSimSetOptions(&quiet);
  }
  ~SimDriverTest() override {
    sim.gpkSimClearFault();
    sim.gpkSimSetOptions(&saved_);
    cu.cuCtxSynchronize();
  }

  cu::Function load_scale() {
    cu::Function function = nullptr;
    EXPECT_EQ(cu.cuModuleLoadDataEx(&module, kScalePtx, 0, nullptr, nullptr), cu::kSuccess);
    EXPECT_EQ(cu.cuModuleGetFunction(&function, module, "scale"), cu::kSuccess);
    return function;
  }

  cu::Result launch_scale(cu::Function function, cu::DevicePtr x, float factor, int n,
                          cu::Stream stream = nullptr) {
    void* params[] = {&x, &factor, &n};
    const auto blocks = static_cast<unsigned>((n + 63) / 64);
    return cu.cuLaunchKernel(function, blocks, 1, 1, 64, 1, 1, 0, stream, params, nullptr);
  }

  cu::DevicePtr allocate(std::size_t bytes) {
    cu::DevicePtr ptr = 0;
    EXPECT_EQ(cu.cuMemAlloc(&ptr, bytes), cu::kSuccess);
    return ptr;
  }

  cu::DevicePtr upload(const std::vector<float>& values) {
    const std::size_t bytes = values.size() * sizeof(float);
    const cu::DevicePtr ptr = allocate(bytes);
    EXPECT_EQ(cu.cuMemcpyHtoDAsync(ptr, values.data(), bytes, nullptr), cu::kSuccess);
    EXPECT_EQ(cu.cuStreamSynchronize(nullptr), cu::kSuccess);
    return ptr;
  }

  std::vector<float> download(cu::DevicePtr ptr, std::size_t count, cu::Stream stream = nullptr) {
    std::vector<float> values(count);
    EXPECT_EQ(cu.cuMemcpyDtoHAsync(values.data(), ptr, count * sizeof(float), stream),
              cu::kSuccess);
    EXPECT_EQ(cu.cuStreamSynchronize(stream), cu::kSuccess);
    return values;
  }

  cu::Stream make_stream(unsigned flags = cu::kStreamNonBlocking) {
    cu::Stream stream = nullptr;
    EXPECT_EQ(cu.cuStreamCreateWithPriority(&stream, flags, 0), cu::kSuccess);
    return stream;
  }

  cu::DriverApi cu;
  cu::SimApi sim;
  cu::Context context = nullptr;
  cu::Module module = nullptr;

 private:
  cu::SimOptions saved_{};
};

}  // namespace gpk
