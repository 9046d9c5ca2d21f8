// A GEMM as a plain value: what plans are made from.
#pragma once

#include <string>

#include "core/dtype.h"
#include "ops/matmul/gemm_call.h"
#include "ops/matmul/problem.h"

namespace gpk::ops::gemm {

struct MatmulDesc {
  // Sizes and strides, batches joined. Strides of dimensions of one element are set to what suits
  // the layout best, so that a vector is a matrix with a good pitch.
  MatmulProblem problem;
  plan::OperandFormat a, b;
  DType dtype_c = DType::kFloat32;
  DType dtype_acc = DType::kFloat32;  // accumulators, and split-K partial sums
  GroupLayout groups;
  // Largest power of two up to 16 that divides, in bytes, the address of the first element, the
  // pitch (the stride that is not 1) and the batch strides.
  std::uint8_t align_a = 16, align_b = 16, align_c = 16, align_residual = 16;
  std::uint8_t align_bias = 16;  // of its address
  unsigned epilogue = 0;         // flags of ops/matmul/epilogue.h
  EpilogueSteps steps;
  bool conjugate = false;
  bool tf32 = false;
  bool tf32x3 = false;
  bool float64_int8 = false;
  bool batch_invariant = false;
  bool few_rows = false;
  bool gated = false, normed = false;  // as GemmCall
  bool fast_accum = false;             // FP8 only

  // Layouts: which stride is 1. Neither: strided both ways.
  [[nodiscard]] bool a_k_major() const noexcept { return problem.a_k == 1; }
  [[nodiscard]] bool a_m_major() const noexcept { return problem.a_m == 1; }
  [[nodiscard]] bool b_k_major() const noexcept { return problem.b_k == 1; }
  [[nodiscard]] bool b_n_major() const noexcept { return problem.b_n == 1; }
  [[nodiscard]] bool c_n_major() const noexcept { return problem.c_n == 1; }  // row-major C
  [[nodiscard]] bool c_m_major() const noexcept { return problem.c_m == 1; }

  friend bool operator==(const MatmulDesc&, const MatmulDesc&) = default;
};

// Pure. Where *fit is not kFits the desc must not be planned: run_gemm() falls back to copies or
// to one call per batch.
enum class DescFit : std::uint8_t {
  kFits,
  kManyBatches,  // more batch dimensions than kernels walk
  kResidual,     // the batches of the residual are not evenly spaced
  kScales,       // scales that differ by batch
};
MatmulDesc make_desc(const GemmCall& call, DescFit* fit = nullptr);

// make_desc() without sizes, strides and alignments: what check_formats() looks at.
MatmulDesc format_desc(const GemmCall& call);

// The same GEMM without its epilogue, into a contiguous array of accumulators.
MatmulDesc raw_desc(const MatmulDesc& desc);

// C^T = B^T A^T. The epilogue stays that of C.
MatmulDesc transposed(const MatmulDesc& desc);

// The dtype that products of `operand` are accumulated in.
DType accumulator(DType operand) noexcept;

std::string to_string(const MatmulDesc& desc);

}  // namespace gpk::ops::gemm
