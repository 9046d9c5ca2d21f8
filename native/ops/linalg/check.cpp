#include "ops/linalg/check.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/linalg_error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/fill.h"

namespace gpk::ops::linalg {
namespace {

// The index of matrix `at` in C order.
Dims index_of(std::int64_t at, const Dims& batch) {
  Dims index = Dims::filled(batch.size(), 0);
  for (int i = batch.size() - 1; i >= 0; --i) {
    index[i] = at % batch[i];
    at /= batch[i];
  }
  return index;
}

}  // namespace

DType compute_dtype(const Array& x, const char* argument, const char* op) {
  const DType dtype = x.dtype();
  switch (info(dtype).kind) {
    case DTypeClass::kComplex: return dtype;
    case DTypeClass::kFloat:
      if (dtype == DType::kFloat32 || dtype == DType::kFloat64) return dtype;
      break;
    default:
      if (!is_storage_only(dtype)) return DType::kFloat64;
  }
  throw InvalidArgument(
      InvalidArgument::Kind::kType,
      cat(op, ": ", argument, " has dtype ", name(dtype),
          ", expected float32, float64, complex64, complex128 or an integer dtype"));
}

DType compute_dtype(const Array& x1, const Array& x2, const char* op) {
  if (!(x1.device() == x2.device()))
    throw InvalidArgument(
        cat(op, ": x1 is on ", to_string(x1.device()), ", x2 on ", to_string(x2.device())));
  return promote_types(compute_dtype(x1, "x1", op), compute_dtype(x2, "x2", op), op);
}

void check_matrix(const Array& x, const char* argument, const char* op) {
  if (x.ndim() < 2)
    throw LinAlgError(cat(op, ": ", argument, " has shape ", to_string(x.shape()),
                          ", expected at least two dimensions"));
}

void check_square(const Array& x, const char* argument, const char* op) {
  check_matrix(x, argument, op);
  if (rows_of(x) != cols_of(x))
    throw LinAlgError(cat(op, ": ", argument, " has shape ", to_string(x.shape()),
                          ", expected square matrices as the last two dimensions"));
}

std::int64_t rows_of(const Array& x) { return x.shape()[x.ndim() - 2]; }
std::int64_t cols_of(const Array& x) { return x.shape()[x.ndim() - 1]; }

Dims batch_of(const Array& x, int count) {
  return Dims(x.shape().span().first(static_cast<std::size_t>(x.ndim() - count)));
}

Dims joined(const Dims& batch, const Dims& rest) {
  Dims all = Dims::filled(batch.size() + rest.size(), 0);
  std::copy(batch.begin(), batch.end(), all.data());
  std::copy(rest.begin(), rest.end(), all.data() + batch.size());
  return all;
}

bool on_reference(const Array& x, const LinalgCall& call) {
  return !x.device().is_cuda() && !call.blocked;
}

Array new_status(const Dims& batch, Device device, const char* op) {
  return full(batch, Scalar(std::int64_t{0}), DType::kInt32, device, op);
}

void finish(const Array& status, std::initializer_list<const Array*> results,
            const LinalgCall& call, const char* problem) {
  if (status.size() == 0) return;
  if (call.check) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(status.size()));
    device::to_host(status, values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == 0) continue;
      const Dims index = index_of(static_cast<std::int64_t>(i), status.shape());
      throw LinAlgError(cat(call.op, ": the matrix", index.empty() ? "" : " at ",
                            index.empty() ? std::string() : to_string(index), " ", problem));
    }
    return;
  }
  const Array bad = not_equal(status, Scalar(std::int64_t{0}));
  for (const Array* result : results) {
    Array flags = bad;
    for (int i = status.ndim(); i < result->ndim(); ++i) flags = expand_dims(flags, {i}, call.op);
    where(flags, Scalar(std::numeric_limits<double>::quiet_NaN()), *result, result);
  }
}

}  // namespace gpk::ops::linalg
