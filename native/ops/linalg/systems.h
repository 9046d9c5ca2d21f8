// Systems of linear equations: shapes of both sides.
#pragma once

#include "ops/linalg/check.h"

namespace gpk::ops::linalg {

struct SystemDesc {
  DType dtype = DType::kFloat32;
  Dims batch;  // of the result
  std::int64_t n = 0;
  std::int64_t sides = 1;  // right-hand sides
  bool vector = false;     // x2 has one axis

  [[nodiscard]] Dims shape() const { return joined(batch, vector ? Dims{n} : Dims{n, sides}); }
  [[nodiscard]] std::int64_t result_size() const;
};

// x1 [..., n, n], x2 [n] or [..., n, k], batches broadcast. Throws LinAlgError, InvalidArgument.
SystemDesc check_system(const Array& x1, const Array& x2, const char* op);

Array empty_result(const SystemDesc& desc, Device device, const char* op);
// Fresh stacks of the result's batch.
Array right_hand_sides(const Array& x2, const SystemDesc& desc, const char* op);
Array system_matrices(const Array& x1, const SystemDesc& desc, const char* op);
// A stack of solutions in the result's shape.
Array as_result(const Array& stack, const SystemDesc& desc, const char* op);

}  // namespace gpk::ops::linalg
