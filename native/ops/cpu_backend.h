// Ops on the CPU device. Their meaning is given by whoever embeds the library: the Python package
// calls pygpukit._reference with zero-copy NumPy views. A plain C++ program has none, unless it
// sets one.
#pragma once

#include <functional>
#include <variant>
#include <vector>

#include "core/array.h"
#include "core/scalar.h"

namespace gpk::ops {

using CpuArg = std::variant<Array, Scalar>;

struct CpuCall {
  const char* op;  // name in op_list.def
  std::vector<CpuArg> args;
  Array out;  // to be filled
};

using CpuBackend = std::function<void(const CpuCall&)>;
void set_cpu_backend(CpuBackend backend);

// Runs the call, or records it while the calling thread captures a graph on the CPU. Throws Error
// when there is no backend.
void run_on_cpu(CpuCall call);

}  // namespace gpk::ops
