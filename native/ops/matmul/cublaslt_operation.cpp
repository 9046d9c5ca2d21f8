#include "ops/matmul/cublaslt_operation.h"

#include <algorithm>

namespace gpk::ops::gemm {
namespace {

static_assert(sizeof(cu::DevicePtr) == sizeof(void*));  // descriptors hold pointers

int lt_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return kLtFloat16;
    case DType::kBFloat16: return kLtBFloat16;
    case DType::kFloat64: return kLtFloat64;
    case DType::kComplex64: return kLtComplex64;
    case DType::kComplex128: return kLtComplex128;
    case DType::kInt8: return kLtInt8;
    case DType::kInt32: return kLtInt32;
    case DType::kFloat8E4M3FN: return kLtFloat8E4M3;
    case DType::kFloat8E5M2: return kLtFloat8E5M2;
    default: return kLtFloat32;
  }
}

int compute_type(const MatmulDesc& desc) {
  switch (desc.dtype_acc) {
    case DType::kFloat64:
    case DType::kComplex128: return kLtCompute64F;
    case DType::kInt32: return kLtCompute32I;
    default: return desc.tf32 && desc.a.dtype == DType::kFloat32 ? kLtComputeTf32 : kLtCompute32F;
  }
}

int epilogue_of(unsigned flags) {
  int epilogue = 0;
  if ((flags & kEpilogueBias) != 0) epilogue |= kLtEpilogueBias;
  if (activation_of(flags) == Activation::kRelu) epilogue |= kLtEpilogueRelu;
  if (activation_of(flags) == Activation::kGelu) epilogue |= kLtEpilogueGelu;
  return epilogue == 0 ? kLtEpilogueDefault : epilogue;
}

// alpha or beta in the type of the sums.
struct LtNumber {
  alignas(16) unsigned char bytes[16] = {};
  LtNumber(DType sums, float value) {
    const auto wide = static_cast<double>(value);
    const auto whole = static_cast<std::int32_t>(value);
    const void* from = &value;
    std::size_t size = sizeof value;
    if (sums == DType::kFloat64 || sums == DType::kComplex128) {
      from = &wide;
      size = sizeof wide;
    } else if (sums == DType::kInt32) {
      from = &whole;
      size = sizeof whole;
    }
    std::copy_n(static_cast<const unsigned char*>(from), size, bytes);  // imaginary part: 0
  }
};

void* pointer(cu::DevicePtr address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

}  // namespace

// Their matrices are column-major: a row-major C is their C^T = B^T A^T.
LtOperationPlan::LtOperationPlan(const CublasLt& library, LtHandle handle, const MatmulDesc& desc,
                                 const GemmCall& call)
    : api_(library.api), handle_(handle), sums_(desc.dtype_acc), epilogue_(desc.epilogue) {
  const MatmulProblem& p = desc.problem;
  note(api_.cublasLtMatmulDescCreate(&operation_, compute_type(desc), lt_type(sums_)));
  if (status_ != kLtSuccess) return;
  const bool b_stored_n = p.b_n == 1 && p.b_k >= p.n;
  const bool a_stored_k = p.a_k == 1 && p.a_m >= p.k;
  const std::int32_t transpose_a = b_stored_n ? 0 : 1;
  const std::int32_t transpose_b = a_stored_k ? 0 : 1;
  const std::int32_t epilogue = epilogue_of(epilogue_);
  set(kLtTransposeA, &transpose_a, sizeof transpose_a);
  set(kLtTransposeB, &transpose_b, sizeof transpose_b);
  set(kLtEpilogue, &epilogue, sizeof epilogue);
  if (desc.fast_accum) {
    const std::int8_t fast = 1;
    set(kLtFastAccum, &fast, sizeof fast);
  }
  set_pointers(call);
  const std::int64_t batches = p.num_batches();
  const auto step = [](const Dims& strides) { return strides.empty() ? 0 : strides[0]; };
  a_ = b_stored_n ? make_layout(desc.b.dtype, p.n, p.k, p.b_k, batches, step(p.batch_b))
                  : make_layout(desc.b.dtype, p.k, p.n, p.b_n, batches, step(p.batch_b));
  b_ = a_stored_k ? make_layout(desc.a.dtype, p.k, p.m, p.a_m, batches, step(p.batch_a))
                  : make_layout(desc.a.dtype, p.m, p.k, p.a_k, batches, step(p.batch_a));
  c_ = make_layout(desc.dtype_c, p.n, p.m, p.c_m, batches, step(p.batch_c));
  if (status_ == kLtSuccess) choose(desc);
}

LtOperationPlan::~LtOperationPlan() {
  for (LtLayout layout : {a_, b_, c_})
    if (layout != nullptr) api_.cublasLtMatrixLayoutDestroy(layout);
  if (operation_ != nullptr) api_.cublasLtMatmulDescDestroy(operation_);
}

void LtOperationPlan::set_pointers(const GemmCall& call) {
  const auto set_pointer = [&](int attribute, const std::optional<Array>& array) {
    const cu::DevicePtr address = array ? array->device_ptr() : 0;
    set(attribute, &address, sizeof address);
  };
  if ((epilogue_ & kEpilogueBias) != 0) set_pointer(kLtBiasPointer, call.epilogue.bias);
  if ((epilogue_ & kEpilogueScales) == 0) return;
  set_pointer(kLtScalePointerA, call.quant_b.scales);
  set_pointer(kLtScalePointerB, call.quant_a.scales);
}

LtLayout LtOperationPlan::make_layout(DType dtype, std::int64_t rows, std::int64_t columns,
                                      std::int64_t pitch, std::int64_t batches,
                                      std::int64_t batch_stride) {
  LtLayout layout = nullptr;
  note(api_.cublasLtMatrixLayoutCreate(&layout, lt_type(dtype), static_cast<std::uint64_t>(rows),
                                       static_cast<std::uint64_t>(columns), pitch));
  if (status_ != kLtSuccess || batches == 1) return layout;
  const auto count = static_cast<std::int32_t>(batches);
  note(api_.cublasLtMatrixLayoutSetAttribute(layout, kLtBatchCount, &count, sizeof count));
  note(api_.cublasLtMatrixLayoutSetAttribute(layout, kLtBatchStride, &batch_stride,
                                             sizeof batch_stride));
  return layout;
}

void LtOperationPlan::choose(const MatmulDesc& desc) {
  LtPreference preference = nullptr;
  note(api_.cublasLtMatmulPreferenceCreate(&preference));
  if (status_ != kLtSuccess) return;
  const auto prefer = [&](int attribute, const void* value, std::size_t bytes) {
    note(api_.cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, bytes));
  };
  const std::uint64_t workspace = kLtWorkspaceBytes;
  prefer(kLtMaxWorkspaceBytes, &workspace, sizeof workspace);
  // Partial sums of a split K stay in float32: in C's type they would be rounded once each.
  prefer(kLtReductionSchemes, &kLtReduceInComputeType, sizeof kLtReduceInComputeType);
  const std::pair<int, std::uint32_t> alignments[] = {{kLtMinAlignA, desc.align_b},
                                                      {kLtMinAlignB, desc.align_a},
                                                      {kLtMinAlignC, desc.align_c},
                                                      {kLtMinAlignD, desc.align_c}};
  for (const auto& [attribute, bytes] : alignments) prefer(attribute, &bytes, sizeof bytes);
  int found = 0;
  if (status_ == kLtSuccess)
    note(api_.cublasLtMatmulAlgoGetHeuristic(handle_, operation_, a_, b_, c_, c_, preference, 1,
                                             &chosen_, &found));
  if (status_ == kLtSuccess) note(found == 0 ? int{kLtNotSupported} : chosen_.status);
  api_.cublasLtMatmulPreferenceDestroy(preference);
}

int LtOperationPlan::run(const GemmCall& call, cu::DevicePtr a, cu::DevicePtr b,
                         cu::DevicePtr workspace, cu::Stream stream) {
  if ((epilogue_ & (kEpilogueBias | kEpilogueScales)) != 0) set_pointers(call);
  if (status_ != kLtSuccess) return status_;
  const LtNumber alpha(sums_, call.epilogue.alpha);
  const LtNumber beta(sums_, 0.0f);
  void* c = call.c.data();
  return api_.cublasLtMatmul(handle_, operation_, alpha.bytes, pointer(b), a_, pointer(a), b_,
                             beta.bytes, c, c_, c, c_, &chosen_.algorithm, pointer(workspace),
                             chosen_.workspace_bytes, stream);
}

}  // namespace gpk::ops::gemm
