// Memory of the simulated driver: bounds, quarantine, virtual memory, pinned memory.
#include <cstring>

#include "sim_driver_fixture.h"

namespace gpk {
namespace {

constexpr std::size_t kGranule = std::size_t{2} << 20;

cu::MemoryProperties device_memory() {
  cu::MemoryProperties properties{};
  properties.type = cu::kMemoryPinned;
  properties.location = {cu::kLocationDevice, 0};
  return properties;
}

class SimMemoryTest : public SimDriverTest {
 protected:
  std::size_t free_bytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_EQ(cu.cuMemGetInfo(&free, &total), cu::kSuccess);
    return free;
  }
  cu::MemoryHandle create(std::size_t bytes) {
    cu::MemoryHandle handle = 0;
    const cu::MemoryProperties properties = device_memory();
    EXPECT_EQ(cu.cuMemCreate(&handle, bytes, &properties, 0), cu::kSuccess);
    return handle;
  }
  void map(cu::DevicePtr at, cu::MemoryHandle handle) {
    const cu::MemoryAccess access{{cu::kLocationDevice, 0}, cu::kAccessReadWrite};
    EXPECT_EQ(cu.cuMemMap(at, kGranule, 0, handle, 0), cu::kSuccess);
    EXPECT_EQ(cu.cuMemSetAccess(at, kGranule, &access, 1), cu::kSuccess);
  }
  unsigned memory_type(cu::DevicePtr ptr) {
    int attribute = cu::kPointerMemoryType;
    unsigned type = 99;
    void* values[] = {&type};
    EXPECT_EQ(cu.cuPointerGetAttributes(1, &attribute, values, ptr), cu::kSuccess);
    return type;
  }
};

TEST_F(SimMemoryTest, AllocationsAreAlignedAndCounted) {
  const std::size_t before = free_bytes();
  const cu::DevicePtr a = allocate(100);
  EXPECT_EQ(a % 512, 0u);
  EXPECT_EQ(free_bytes(), before - 100);
  EXPECT_EQ(memory_type(a + 99), 2u);
  EXPECT_EQ(memory_type(a + 100), 0u);
  EXPECT_EQ(cu.cuMemFree(a), cu::kSuccess);
  EXPECT_EQ(cu.cuMemFree(a), cu::kInvalidValue);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(SimMemoryTest, MoreThanTheDeviceHasIsRefused) {
  cu::DevicePtr ptr = 0;
  EXPECT_EQ(cu.cuMemAlloc(&ptr, free_bytes() + 1), cu::kOutOfMemory);
  EXPECT_EQ(cu.cuMemAlloc(&ptr, 0), cu::kInvalidValue);
}

TEST_F(SimMemoryTest, CopiesKeepToBounds) {
  const cu::DevicePtr a = allocate(64);
  char bytes[65] = {};
  EXPECT_EQ(cu.cuMemcpyHtoDAsync(a, bytes, 65, nullptr), cu::kInvalidValue);
  EXPECT_EQ(cu.cuMemsetD32Async(a, 7, 17, nullptr), cu::kInvalidValue);
  EXPECT_EQ(cu.cuMemsetD32Async(a + 2, 7, 1, nullptr), cu::kInvalidValue);
  EXPECT_EQ(cu.cuMemsetD32Async(a, 7, 16, nullptr), cu::kSuccess);
  unsigned words[16] = {};
  EXPECT_EQ(cu.cuMemcpyDtoHAsync(words, a, 64, nullptr), cu::kSuccess);
  for (const unsigned word : words) EXPECT_EQ(word, 7u);
  cu.cuMemFree(a);
}

TEST_F(SimMemoryTest, AnAsynchronousCopyHasReadPageableMemory) {
  const cu::DevicePtr a = allocate(4);
  const cu::Stream stream = make_stream();
  int value = 5;
  EXPECT_EQ(cu.cuMemcpyHtoDAsync(a, &value, 4, stream), cu::kSuccess);
  value = 6;
  EXPECT_EQ(cu.cuStreamSynchronize(stream), cu::kSuccess);
  EXPECT_EQ(cu.cuMemcpyDtoHAsync(&value, a, 4, stream), cu::kSuccess);
  EXPECT_EQ(value, 5);
  cu.cuStreamDestroy(stream);
  cu.cuMemFree(a);
}

TEST_F(SimMemoryTest, AKernelBehindTheEndIsAFinding) {
  const cu::Function scale = load_scale();
  const cu::DevicePtr a = upload(std::vector<float>(63, 1.0F));
  EXPECT_EQ(launch_scale(scale, a, 2.0F, 64), cu::kSuccess);
  EXPECT_EQ(cu.cuCtxSynchronize(), cu::kIllegalAddress);
  EXPECT_EQ(cu.cuMemFree(a), cu::kIllegalAddress);  // sticky
  const char* text = nullptr;
  EXPECT_EQ(cu.cuGetErrorString(cu::kIllegalAddress, &text), cu::kSuccess);
  EXPECT_NE(std::string(text).find("out of bounds"), std::string::npos) << text;
  EXPECT_NE(std::string(text).find("scale"), std::string::npos) << text;
  sim.gpkSimClearFault();
  EXPECT_EQ(cu.cuMemFree(a), cu::kSuccess);
}

TEST_F(SimMemoryTest, FreedMemoryIsRecognised) {
  const cu::Function scale = load_scale();
  const cu::DevicePtr a = upload(std::vector<float>(64, 1.0F));
  sim.gpkSimNameMemory(a, "weights");
  EXPECT_EQ(cu.cuMemFree(a), cu::kSuccess);
  EXPECT_EQ(launch_scale(scale, a, 2.0F, 64), cu::kSuccess);
  EXPECT_EQ(cu.cuCtxSynchronize(), cu::kIllegalAddress);
  const std::string text = sim.gpkSimFault();
  EXPECT_NE(text.find("weights, which was freed"), std::string::npos) << text;
}

TEST_F(SimMemoryTest, MappedChunksAreOneRange) {
  const cu::Function scale = load_scale();
  const std::size_t before = free_bytes();
  cu::DevicePtr base = 0;
  ASSERT_EQ(cu.cuMemAddressReserve(&base, 3 * kGranule, 0, 0, 0), cu::kSuccess);
  EXPECT_EQ(base % kGranule, 0u);
  const cu::MemoryHandle first = create(kGranule);
  const cu::MemoryHandle second = create(kGranule);
  map(base, first);
  map(base + kGranule, second);
  EXPECT_EQ(free_bytes(), before - 2 * kGranule);
  const cu::DevicePtr across = base + kGranule - 128;
  EXPECT_EQ(cu.cuMemsetD32Async(across, 0x3f800000, 64, nullptr), cu::kSuccess);
  EXPECT_EQ(launch_scale(scale, across, 3.0F, 64), cu::kSuccess);
  EXPECT_EQ(download(across, 64), std::vector<float>(64, 3.0F));

  EXPECT_EQ(cu.cuMemAddressFree(base, 3 * kGranule), cu::kInvalidValue);  // still mapped
  EXPECT_EQ(cu.cuMemRelease(second), cu::kSuccess);                       // kept by its mapping
  EXPECT_EQ(cu.cuMemUnmap(base + kGranule, kGranule), cu::kSuccess);
  EXPECT_EQ(free_bytes(), before - kGranule);
  EXPECT_EQ(launch_scale(scale, across, 3.0F, 64), cu::kSuccess);
  EXPECT_EQ(cu.cuCtxSynchronize(), cu::kIllegalAddress);
  EXPECT_NE(std::string(sim.gpkSimFault()).find("unmapped"), std::string::npos)
      << sim.gpkSimFault();
  sim.gpkSimClearFault();

  map(base + 2 * kGranule, create(kGranule));  // contents of one chunk do not leak into another
  EXPECT_EQ(download(base + 2 * kGranule, 4), std::vector<float>(4, 0.0F));
  EXPECT_EQ(cu.cuMemUnmap(base, kGranule), cu::kSuccess);
  EXPECT_EQ(cu.cuMemUnmap(base + 2 * kGranule, kGranule), cu::kSuccess);
  EXPECT_EQ(cu.cuMemAddressFree(base, 3 * kGranule), cu::kSuccess);
}

TEST_F(SimMemoryTest, MappingsKeepTheirBytesAtAnotherAddress) {
  cu::DevicePtr base = 0;
  ASSERT_EQ(cu.cuMemAddressReserve(&base, 2 * kGranule, 0, 0, 0), cu::kSuccess);
  const cu::MemoryHandle chunk = create(kGranule);
  map(base, chunk);
  EXPECT_EQ(cu.cuMemsetD32Async(base, 0x40000000, 8, nullptr), cu::kSuccess);
  EXPECT_EQ(cu.cuMemUnmap(base, kGranule), cu::kSuccess);
  map(base + kGranule, chunk);
  EXPECT_EQ(download(base + kGranule, 8), std::vector<float>(8, 2.0F));
  EXPECT_EQ(cu.cuMemUnmap(base + kGranule, kGranule), cu::kSuccess);
  EXPECT_EQ(cu.cuMemRelease(chunk), cu::kSuccess);
  EXPECT_EQ(cu.cuMemRelease(chunk), cu::kInvalidValue);
  EXPECT_EQ(cu.cuMemAddressFree(base, 2 * kGranule), cu::kSuccess);
}

TEST_F(SimMemoryTest, MappingsKeepToTheirRangesAndChunks) {
  const std::size_t before = free_bytes();
  cu::DevicePtr base = 0;
  ASSERT_EQ(cu.cuMemAddressReserve(&base, 2 * kGranule, 0, 0, 0), cu::kSuccess);
  EXPECT_EQ(free_bytes(), before);  // addresses are no memory
  const cu::MemoryHandle chunk = create(kGranule);
  EXPECT_EQ(cu.cuMemMap(base + 512, kGranule, 0, chunk, 0), cu::kInvalidValue);
  EXPECT_EQ(cu.cuMemMap(base + 2 * kGranule, kGranule, 0, chunk, 0), cu::kInvalidValue);
  ASSERT_EQ(cu.cuMemMap(base, kGranule, 0, chunk, 0), cu::kSuccess);
  EXPECT_EQ(cu.cuMemMap(base, kGranule, 0, chunk, 0), cu::kInvalidValue);
  float value = 0;  // mapped, but not accessible yet
  EXPECT_EQ(cu.cuMemcpyDtoHAsync(&value, base, sizeof value, nullptr), cu::kInvalidValue);
  EXPECT_EQ(cu.cuMemUnmap(base, kGranule), cu::kSuccess);
  EXPECT_EQ(cu.cuMemRelease(chunk), cu::kSuccess);
  EXPECT_EQ(cu.cuMemAddressFree(base, 2 * kGranule), cu::kSuccess);
  const cu::MemoryProperties properties = device_memory();
  cu::MemoryHandle more = 0;
  const std::size_t too_much = (before / kGranule + 1) * kGranule;
  EXPECT_EQ(cu.cuMemCreate(&more, too_much, &properties, 0), cu::kOutOfMemory);
}

TEST_F(SimMemoryTest, KernelsWorkOnPinnedAndRegisteredMemory) {
  const cu::Function scale = load_scale();
  void* pinned = nullptr;
  ASSERT_EQ(cu.cuMemHostAlloc(&pinned, 256, 0), cu::kSuccess);
  std::vector<float> own(64, 1.0F);
  ASSERT_EQ(cu.cuMemHostRegister(own.data(), 256, 0), cu::kSuccess);
  EXPECT_EQ(cu.cuMemHostRegister(own.data(), 256, 0), cu::kInvalidValue);
  EXPECT_EQ(memory_type(reinterpret_cast<std::uintptr_t>(own.data())), cu::kMemoryTypeHost);
  std::memcpy(pinned, own.data(), 256);
  EXPECT_EQ(launch_scale(scale, reinterpret_cast<std::uintptr_t>(pinned), 4.0F, 64), cu::kSuccess);
  EXPECT_EQ(launch_scale(scale, reinterpret_cast<std::uintptr_t>(own.data()), 5.0F, 64),
            cu::kSuccess);
  EXPECT_EQ(cu.cuCtxSynchronize(), cu::kSuccess);
  EXPECT_EQ(static_cast<float*>(pinned)[63], 4.0F);
  EXPECT_EQ(own[63], 5.0F);
  EXPECT_EQ(cu.cuMemHostUnregister(own.data()), cu::kSuccess);
  EXPECT_EQ(cu.cuMemFreeHost(pinned), cu::kSuccess);
}

}  // namespace
}  // namespace gpk
