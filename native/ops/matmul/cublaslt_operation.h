// One GEMM as cuBLASLt describes it: descriptors, and the kernel that its heuristic chose.
#pragma once

#include "ops/matmul/cublaslt.h"
#include "ops/matmul/desc.h"

namespace gpk::ops::gemm {

inline constexpr std::size_t kLtWorkspaceBytes = std::size_t{32} << 20;

// Of one thread: not thread safe.
class LtOperationPlan {
 public:
  // `desc` is one that cublaslt_can() and its C is row-major (c_n == 1). `call` gives the pointers
  // that descriptors hold. Where the library has no kernel, status() says so.
  LtOperationPlan(const CublasLt& library, LtHandle handle, const MatmulDesc& desc,
                  const GemmCall& call);
  ~LtOperationPlan();
  LtOperationPlan(const LtOperationPlan&) = delete;
  LtOperationPlan& operator=(const LtOperationPlan&) = delete;

  [[nodiscard]] int status() const noexcept { return status_; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return chosen_.workspace_bytes; }

  // Submits; returns the library's status. a and b as in MatmulDesc.
  int run(const GemmCall& call, cu::DevicePtr a, cu::DevicePtr b, cu::DevicePtr workspace,
          cu::Stream stream);

 private:
  void note(int status) {
    if (status_ == kLtSuccess) status_ = status;
  }
  void set(int attribute, const void* value, std::size_t bytes) {
    note(api_.cublasLtMatmulDescSetAttribute(operation_, attribute, value, bytes));
  }
  void set_pointers(const GemmCall& call);
  LtLayout make_layout(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t pitch,
                       std::int64_t batches, std::int64_t batch_stride);
  void choose(const MatmulDesc& desc);

  const CublasLtApi& api_;
  LtHandle handle_;
  int status_ = kLtSuccess;
  LtOperation operation_ = nullptr;
  LtLayout a_ = nullptr, b_ = nullptr, c_ = nullptr;  // theirs: a_ is our b
  LtHeuristic chosen_{};
  DType sums_;
  unsigned epilogue_;
};

}  // namespace gpk::ops::gemm
