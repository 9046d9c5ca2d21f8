// The part of the CUDA driver ABI that we use, declared here so that no CUDA header is needed to
// build. driver_functions.def is the list; DriverApi is the table generated from it, filled from
// libcuda or the simulated driver (core/driver.h), or from tests' layer over the latter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/args/tensor_map.h"

namespace gpk::inline core::cu {

using Result = int;
using Device = int;
using DevicePtr = std::uint64_t;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using LinkState = struct LinkStateTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;
using GraphNode = struct GraphNodeTag*;
using MemoryHandle = std::uint64_t;
using GreenCtx = struct GreenCtxTag*;
using ResourceDesc = struct ResourceDescTag*;

// CUresult values that we distinguish; names of all others come from cuGetErrorName.
enum : Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kNoDevice = 100,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kInvalidPtx = 218,
  kNvlinkUncorrectable = 220,
  kUnsupportedPtxVersion = 222,
  kContained = 226,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kPeerAccessAlreadyEnabled = 704,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kTensorMemoryLeak = 721,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kCapturedEvent = 907,
  kStreamCaptureWrongThread = 908,
};

// CUdevice_attribute
enum : int {
  kAttrMaxThreadsPerBlock = 1,
  kAttrMaxBlockDimX = 2,
  kAttrMaxBlockDimY = 3,
  kAttrMaxBlockDimZ = 4,
  kAttrMaxGridDimX = 5,
  kAttrMaxGridDimY = 6,
  kAttrMaxGridDimZ = 7,
  kAttrMaxSharedPerBlock = 8,
  kAttrWarpSize = 10,
  kAttrMultiprocessorCount = 16,
  kAttrL2CacheBytes = 38,
  kAttrMaxThreadsPerSm = 39,
  kAttrComputeCapabilityMajor = 75,
  kAttrComputeCapabilityMinor = 76,
  kAttrMaxSharedPerSm = 81,
  kAttrCooperativeLaunch = 95,
  kAttrMaxSharedPerBlockOptin = 97,
  kAttrVirtualMemory = 102,
  kAttrClusterLaunch = 120,
};

// CUpointer_attribute, CUmemorytype
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr int kPointerRangeStart = 11;
inline constexpr unsigned kMemoryTypeHost = 1;

// CUfunction_attribute
enum : int {
  kFuncMaxThreadsPerBlock = 0,
  kFuncSharedBytes = 1,
  kFuncConstBytes = 2,
  kFuncLocalBytes = 3,
  kFuncNumRegs = 4,
  kFuncPtxVersion = 5,
  kFuncBinaryVersion = 6,
  kFuncMaxDynamicSharedBytes = 8,
  kFuncNonPortableClusterAllowed = 14,
};

// CUjit_option
enum : int { kJitInputPtx = 1 };
enum : int { kJitInfoLog = 3, kJitInfoLogBytes = 4, kJitErrorLog = 5, kJitErrorLogBytes = 6 };

// Flags
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostAllocPortable = 1;  // also for cuMemHostRegister
inline constexpr unsigned kHostAllocDeviceMap = 2;
inline constexpr int kCaptureModeThreadLocal = 1;
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr int kCaptureStatusNone = 0;

// CUlaunchAttributeID
enum : int {
  kLaunchCooperative = 2,
  kLaunchClusterDimension = 4,
  kLaunchProgrammaticStreamSerialization = 6,
};

struct LaunchAttribute {
  int id;
  int reserved;
  union {
    char bytes[64];
    int flag;
    struct {
      unsigned x, y, z;
    } cluster;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned num_attributes;
};
static_assert(sizeof(LaunchConfig) == 56);

struct KernelNodeParams {  // CUDA_KERNEL_NODE_PARAMS_v2
  Function function;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void** params;
  void** extra;
  void* kernel;
  Context context;
};
static_assert(sizeof(KernelNodeParams) == 72);

struct MemoryLocation {
  int type;  // kLocationDevice
  int id;
};
inline constexpr int kLocationDevice = 1;

struct MemoryProperties {  // CUmemAllocationProp
  int type;                // kMemoryPinned
  int handle_types;        // for other processes
  MemoryLocation location;
  void* win32_metadata;
  unsigned char flags[8];
};
static_assert(sizeof(MemoryProperties) == 32);
inline constexpr int kMemoryPinned = 1;
inline constexpr int kGranularityMinimum = 0;

struct MemoryAccess {  // CUmemAccessDesc
  MemoryLocation location;
  int flags;  // kAccessReadWrite
};
static_assert(sizeof(MemoryAccess) == 12);
inline constexpr int kAccessReadWrite = 3;

struct DevResource {  // CUdevResource: same size since 12.4; later fields use reserved space
  int type;           // kResourceSm
  unsigned char internal[92];
  unsigned sm_count;
  unsigned char rest[44];
};
static_assert(sizeof(DevResource) == 144);
inline constexpr int kResourceSm = 1;
inline constexpr unsigned kGreenDefaultStream = 1;

using TensorMap = kernels::TensorMap;

// CUtensorMapDataType
enum : int {
  kTensorUInt8 = 0,
  kTensorInt32 = 3,
  kTensorFloat16 = 6,
  kTensorFloat32 = 7,
  kTensorBFloat16 = 9,
  kTensorTf32 = 11,
};
inline constexpr int kTensorL2Promote128 = 2;

struct DriverApi {
#define GPK_CU(name, version, symbol, need, params) Result(*name) params = nullptr;
#include "core/driver_functions.def"
#undef GPK_CU
};

}  // namespace gpk::inline core::cu
