// The binary layout of DLPack 1.x, the exchange format of array libraries. Names and values follow
// the standard; the declarations are our own, so that no header has to be installed.
#pragma once

#include <cstdint>

namespace gpk::inline core::dl {

inline constexpr std::uint32_t kMajorVersion = 1;
inline constexpr std::uint32_t kMinorVersion = 1;

enum DeviceType : std::int32_t {
  kCpu = 1,
  kCuda = 2,
  kCudaHost = 3,  // pinned host memory
  kCudaManaged = 13,
};

enum TypeCode : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBFloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E4M3FN = 10,
  kFloat8E5M2 = 12,
  kFloat4E2M1FN = 17,
};

// Bits of ManagedTensorVersioned::flags.
inline constexpr std::uint64_t kReadOnly = 1u << 0;
inline constexpr std::uint64_t kIsCopied = 1u << 1;
inline constexpr std::uint64_t kSubbytePadded = 1u << 2;  // one 4-bit value per byte

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; nullptr: C order without gaps
  std::uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* manager_context;
  void (*deleter)(ManagedTensor* self);  // may be nullptr
};

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

struct ManagedTensorVersioned {
  Version version;
  void* manager_context;
  void (*deleter)(ManagedTensorVersioned* self);  // may be nullptr
  std::uint64_t flags;
  Tensor tensor;
};

static_assert(sizeof(void*) != 8 || (sizeof(Tensor) == 48 && sizeof(ManagedTensor) == 64 &&
                                     sizeof(ManagedTensorVersioned) == 80));

}  // namespace gpk::inline core::dl
