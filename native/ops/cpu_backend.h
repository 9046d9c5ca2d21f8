// Ops on the CPU device, implemented by the embedding program: the Python package calls
// pygpukit._reference with zero-copy NumPy views. A plain C++ program has no backend unless it sets
// one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/array.h"
#include "core/scalar.h"

namespace gpk::ops {

// In Python: a NumPy view, a number, a tuple of ints, a numpy.dtype, a str, None.
using CpuArg = std::variant<Array, Scalar, Dims, DType, std::string, std::monostate>;

// None where there is no array.
inline CpuArg cpu_optional(const std::optional<Array>& array) {
  return array ? CpuArg(*array) : CpuArg(std::monostate{});
}

// <op>(*args, **options, out=view), or out=(view, ...) where an op has several results.
struct CpuCall {
  const char* op;  // name in pygpukit._reference
  std::vector<CpuArg> args;
  std::vector<Array> outs;                                   // to be filled; any strides
  std::vector<std::pair<const char*, CpuArg>> options = {};  // names are static strings
};

using CpuBackend = std::function<void(const CpuCall&)>;
void set_cpu_backend(CpuBackend backend);

// Runs the call, or records it while the calling thread captures a graph on the CPU. Throws Error
// when there is no backend.
void run_on_cpu(CpuCall call);

}  // namespace gpk::ops
