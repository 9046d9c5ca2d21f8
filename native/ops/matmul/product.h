// One product with all that belongs to it, after all checks: what the front doors end in.
#pragma once

#include <array>

#include "core/array.h"
#include "ops/matmul/epilogue.h"

namespace gpk::ops {

struct Product {
  // At least two dimensions, equal leading ones (stride 0 where broadcast); c is not empty, lies
  // apart from all inputs but a residual in just its place, and has any strides. a and b have one
  // dtype (the two FP8 types may mix); c has that dtype, or int32 for int8, float32 for float16 and
  // bfloat16, float32, float16 or bfloat16 for FP8.
  Array a, b, c;
  bool conjugate = false;        // of a, which is complex
  bool tf32 = false;             // float32 operands may be rounded to TF32
  bool batch_invariant = false;  // a row's result does not depend on how many rows there are
  bool fast_accum = false;       // FP8: sums may stay in the tensor cores, which keep fewer bits
  Epilogue epilogue = {};
};

// On either backend. `op` is what messages and profilers show.
void run_product(const Product& product, const char* op);

// All arrays of a product, for submit(); absent ones are nullptr.
std::array<const Array*, 8> arrays_of(const Product& product, const Array* workspace = nullptr);

}  // namespace gpk::ops
