// What the checks of the family share, and the status of its matrices.
#pragma once

#include "core/array.h"
#include "ops/linalg/linalg.h"

namespace gpk::ops::linalg {

// The dtype that `x` computes in. Throws InvalidArgument (kType) for float16 and the like.
DType compute_dtype(const Array& x, const char* argument, const char* op);
// Of both; they must be on one device.
DType compute_dtype(const Array& x1, const Array& x2, const char* op);

// Throw LinAlgError, as NumPy does.
void check_matrix(const Array& x, const char* argument, const char* op);
void check_square(const Array& x, const char* argument, const char* op);

std::int64_t rows_of(const Array& x);
std::int64_t cols_of(const Array& x);
// All axes but the last `count`.
Dims batch_of(const Array& x, int count = 2);
Dims joined(const Dims& batch, const Dims& rest);

// Whether the reference computes the whole result.
bool on_reference(const Array& x, const LinalgCall& call);

// int32 zeros, one for each matrix: what kernels report.
Array new_status(const Dims& batch, Device device, const char* op);

// With `check` waits, and throws LinAlgError "op: the matrix at (1,) <problem>" for the first
// status that is not 0. Otherwise sets the results of those matrices to NaN; they have the batch's
// axes, then others.
void finish(const Array& status, std::initializer_list<const Array*> results,
            const LinalgCall& call, const char* problem);

}  // namespace gpk::ops::linalg
