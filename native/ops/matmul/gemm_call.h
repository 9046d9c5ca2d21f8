// One GEMM with all its operands, after all checks: what every op of this family ends in.
#pragma once

#include <array>

#include "core/array.h"
#include "ops/matmul/epilogue.h"
#include "ops/matmul/row_groups.h"
#include "plan/operand_format.h"

namespace gpk::ops {

inline constexpr std::int64_t kMaxFewRows = 64;

}  // namespace gpk::ops

namespace gpk::ops::gemm {

// What makes numbers of an operand's stored values.
struct Quantization {
  plan::Packing packing = plan::Packing::kNone;
  plan::ScaleLayout layout = plan::ScaleLayout::kNone;
  std::uint8_t block = 0;  // of plan::ScaleLayout::kBlocksOfK
  // One element; kRow: m (1-D), or c.shape[:-1]; kColumn: n (1-D); blocks: [rows, blocks of k].
  std::optional<Array> scales = {};
  std::optional<Array> zero_points = {};  // uint8, as the scales
  // float32, beside scales of blocks: one element, or of a's rows one each.
  std::optional<Array> tensor_scale = {};
  std::optional<Array> metadata = {};  // of kSparse24
};

// Of the rows of a: rmsnorm with (offset + weight), rounded to a's dtype.
struct InputNorm {
  Array weight;  // k elements, contiguous, a's dtype
  float eps = 0.0f;
  float offset = 0.0f;
};

struct GemmCall {
  // At least two dimensions, equal leading ones (stride 0 where broadcast); c is not empty, does
  // not overlap any input but a residual at exactly its place, and has any strides. a and b have
  // one dtype (the two FP8 types may mix); c has that dtype, or int32 for int8, float32 for float16
  // and bfloat16, float32, float16 or bfloat16 for FP8.
  // With groups: a [m, k], b [groups, k, n], c [m, n].
  Array a, b, c;
  bool conjugate = false;        // a, which is complex, is conjugated
  bool tf32 = false;             // float32 operands may be rounded to TF32
  bool tf32x3 = false;           // float32 operands may be split in two TF32 numbers
  bool float64_int8 = false;     // float64 operands may be split in int8 slices
  bool batch_invariant = false;  // a row's result does not depend on how many rows there are
  bool few_rows = false;         // the same among calls of up to kMaxFewRows rows
  // With few_rows, where takes_few_rows(): c = silu(a b) * (a b'), b' being the n columns after b;
  // and a norm in front (up to kMaxNormRows rows).
  bool gated = false;
  std::optional<InputNorm> norm = {};
  bool fast_accum = false;  // FP8: accumulators may have fewer bits than float32
  Epilogue epilogue = {};
  Quantization quant_a = {}, quant_b = {};
  RowGroups groups = {};
};

// On either backend. `op` is what messages and profilers show.
void run_gemm(const GemmCall& call, const char* op);

// All arrays of a call, for submit(); absent ones are nullptr.
std::array<const Array*, 13> arrays_of(const GemmCall& call, const Array* workspace = nullptr);

// Pure.
plan::OperandFormat format_of(const Array& values, const Quantization& quantization);

// MatmulDesc::epilogue: the steps between accumulator and C, scales of operands included.
unsigned epilogue_flags(const GemmCall& call);

// The same for kernels that compute C and those that compute C^T: i and j are always those of C.
EpilogueArgs make_epilogue_args(const GemmCall& call, const EpilogueSteps& steps);

}  // namespace gpk::ops::gemm
