// Linear algebra on stacks of matrices, which are the last two axes. float32, float64, complex64
// and complex128; integers and bool compute in float64, other dtypes are refused. Deterministic.
#pragma once

#include <optional>
#include <string>

#include "core/array.h"

namespace gpk::ops {

// What every call of the family says besides its operands.
struct LinalgCall {
  const char* op;  // in messages
  // Wait for the device, and throw LinAlgError where NumPy raises it. Otherwise nothing waits and
  // the matrices concerned give NaN.
  bool check = true;
  // On the CPU: the algorithms of the GPU, on the reference of each kernel. For tests.
  bool blocked = false;
};

// Which system a factor stands for.
enum class Adjoint : std::uint8_t { kNone, kTranspose, kConjugate };

// The lower triangle L with x = L L^H, or the upper U with x = U^H U. Reads that triangle of x only
// (NumPy's rule).
Array cholesky(const Array& x, bool upper, const LinalgCall& call);

struct LuResult {
  Array lu;      // L (unit diagonal, not stored) below the diagonal, U on and above it
  Array pivots;  // int32: row i was swapped with row pivots[i], in order
};
LuResult lu_factor(const Array& x, const LinalgCall& call);
// b: a vector where it has one axis, else matrices; batches broadcast.
Array lu_solve(const Array& lu, const Array& pivots, const Array& b, Adjoint adjoint,
               const LinalgCall& call);

Array solve(const Array& x1, const Array& x2, const LinalgCall& call);
Array inv(const Array& x, const LinalgCall& call);

struct SlogdetResult {
  Array sign;
  Array logabsdet;  // real
};
SlogdetResult slogdet(const Array& x, const LinalgCall& call);

// Zeros on the diagonal give infinities and NaN.
Array solve_triangular(const Array& x1, const Array& x2, bool upper, bool unit, Adjoint adjoint,
                       const LinalgCall& call);

enum class QrMode : std::uint8_t { kReduced, kComplete, kR };
struct QrResult {
  std::optional<Array> q;
  Array r;
};
QrResult qr(const Array& x, QrMode mode, const LinalgCall& call);

struct EighResult {
  Array w;                 // ascending, real
  std::optional<Array> v;  // columns
};
EighResult eigh(const Array& x, bool upper, bool vectors, const LinalgCall& call);

struct SvdResult {
  std::optional<Array> u;
  Array s;  // descending, real
  std::optional<Array> vh;
};
SvdResult svd(const Array& x, bool full_matrices, bool vectors, const LinalgCall& call);

struct EigResult {
  Array w;  // complex
  std::optional<Array> v;
};
// Throws Error on a GPU.
EigResult eig(const Array& x, bool vectors, const LinalgCall& call);

}  // namespace gpk::ops
