// cuBLASLt, where a machine has it: the part of its ABI that we use, declared by ourselves, and the
// search for it. Nothing happens before the first call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/driver_api.h"

namespace gpk::ops::gemm {

using LtHandle = struct LtHandleTag*;
using LtOperation = struct LtOperationTag*;
using LtLayout = struct LtLayoutTag*;
using LtPreference = struct LtPreferenceTag*;

struct LtAlgorithm {
  std::uint64_t data[8];
};
struct LtHeuristic {  // cublasLtMatmulHeuristicResult_t
  LtAlgorithm algorithm;
  std::size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};
static_assert(sizeof(LtHeuristic) == 96);

// cublasStatus_t
enum : int { kLtSuccess = 0, kLtInvalidValue = 7, kLtArchMismatch = 8, kLtNotSupported = 15 };
// cudaDataType_t
enum : int {
  kLtFloat32 = 0,
  kLtFloat64 = 1,
  kLtFloat16 = 2,
  kLtInt8 = 3,
  kLtComplex64 = 4,
  kLtComplex128 = 5,
  kLtInt32 = 10,
  kLtBFloat16 = 14,
  kLtFloat8E4M3 = 28,
  kLtFloat8E5M2 = 29,
};
// cublasComputeType_t
enum : int { kLtCompute32F = 68, kLtCompute64F = 70, kLtCompute32I = 72, kLtComputeTf32 = 77 };
// cublasLtMatmulDescAttributes_t
enum : int {
  kLtTransposeA = 3,
  kLtTransposeB = 4,
  kLtEpilogue = 7,
  kLtBiasPointer = 8,
  kLtScalePointerA = 17,
  kLtScalePointerB = 18,
  kLtFastAccum = 25,
};
// cublasLtEpilogue_t
enum : int {
  kLtEpilogueDefault = 1,
  kLtEpilogueRelu = 2,
  kLtEpilogueBias = 4,
  kLtEpilogueGelu = 32
};
// cublasLtMatrixLayoutAttribute_t
enum : int { kLtBatchCount = 5, kLtBatchStride = 6 };
// cublasLtMatmulPreferenceAttributes_t
enum : int {
  kLtMaxWorkspaceBytes = 1,
  kLtReductionSchemes = 3,
  kLtMinAlignA = 5,
  kLtMinAlignB = 6,
  kLtMinAlignC = 7,
  kLtMinAlignD = 8
};

inline constexpr std::uint32_t kLtReduceInComputeType = 2;  // cublasLtReductionScheme_t

struct CublasLtApi {
#define GPK_LT(name, params) int(*name) params = nullptr;
#include "ops/matmul/cublaslt_functions.def"
#undef GPK_LT
};

struct CublasLt {
  CublasLtApi api;
  std::size_t version = 0;  // 130100 for 13.1.0, 120805 for 12.8.5; 0: it does not tell
  std::string path;         // of the library file
};

struct CublasLtSearch {
  const CublasLt* library = nullptr;  // nullptr: not found
  std::vector<std::string> tried;     // every name or path asked for, in order, with the answer
};

// Searches once per process: PYGPUKIT_CUBLASLT_PATH (when set, nothing else is tried, so that a
// wrong path hides the library), already loaded, pip's nvidia/*/lib, conda, the system loader,
// CUDA_PATH / CUDA_HOME; newest major first. Loading it takes a while: it is large. Never throws
// for a missing library.
const CublasLtSearch& find_cublaslt();

// Forgets the search and uses `library` instead (nullptr: search again). For tests only.
void set_cublaslt_for_testing(const CublasLt* library);

}  // namespace gpk::ops::gemm
