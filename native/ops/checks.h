// Checks of arguments that several families share. Each throws InvalidArgument with the op, the
// argument, what was given and what was expected.
#pragma once

#include <string_view>

#include "core/array.h"

namespace gpk::ops {

// "op: w is on cpu, x on cuda:0": `owner` names whose device was expected.
void check_device(const Array& array, std::string_view argument, Device device,
                  std::string_view owner, const char* op);

// "op: slots has dtype int64, expected int32".
void check_dtype(const Array& array, std::string_view argument, DType dtype, const char* op);

// "op: w has dtype float32, x has float16".
void check_same_dtype(const Array& array, std::string_view argument, const Array& other,
                      std::string_view other_argument, const char* op);

// "op: bias has shape (3,), expected (4,)".
void check_shape(const Array& array, std::string_view argument, const Dims& shape, const char* op);

// `array` has `shape`, and the dtype and device of `x`.
void check_operand(const Array& array, std::string_view argument, const Dims& shape, const Array& x,
                   const char* op);

}  // namespace gpk::ops
