// The complex functions of elementwise kernels as a library: tests/unit/test_complex_functions.py
// runs them over the standard's special cases and random numbers.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <string_view>

// CUDA overloads these in the global namespace; the host's C functions there are double only.
using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atan2, std::atanh,
    std::copysign, std::cos, std::cosh, std::exp, std::exp2, std::expm1, std::fabs, std::fmax,
    std::fmin, std::hypot, std::isfinite, std::isinf, std::log, std::log10, std::log1p, std::log2,
    std::signbit, std::sin, std::sinh, std::sqrt, std::tan, std::tanh, std::floor, std::ceil,
    std::trunc, std::rint;
namespace {
template <class R>
void sincos(R x, R* sine, R* cosine) {
  *sine = std::sin(x);
  *cosine = std::cos(x);
}
template <class R>
R rsqrt(R x) {
  return R(1) / std::sqrt(x);
}
}  // namespace

#include "elementwise/functions.cuh"

namespace {

template <class Op, class R>
void apply(const gpk::Complex<R>* in, gpk::Complex<R>* out, long long count) {
  for (long long i = 0; i < count; ++i) out[i] = Op::template run<gpk::Complex<R>>(in[i]);
}

template <class R>
bool apply_named(std::string_view op, const void* in, void* out, long long count) {
  const auto* from = static_cast<const gpk::Complex<R>*>(in);
  auto* to = static_cast<gpk::Complex<R>*>(out);
#define GPK_OP(name, Functor) \
  if (op == name) return apply<gpk::Functor>(from, to, count), true;
  GPK_OP("acos", Acos)
  GPK_OP("acosh", Acosh)
  GPK_OP("asin", Asin)
  GPK_OP("asinh", Asinh)
  GPK_OP("atan", Atan)
  GPK_OP("atanh", Atanh)
  GPK_OP("cos", Cos)
  GPK_OP("cosh", Cosh)
  GPK_OP("exp", Exp)
  GPK_OP("expm1", Expm1)
  GPK_OP("log", Log)
  GPK_OP("log10", Log10)
  GPK_OP("log1p", Log1p)
  GPK_OP("log2", Log2)
  GPK_OP("round", Round)
  GPK_OP("sign", Sign)
  GPK_OP("sin", Sin)
  GPK_OP("sinh", Sinh)
  GPK_OP("sqrt", Sqrt)
  GPK_OP("tan", Tan)
  GPK_OP("tanh", Tanh)
#undef GPK_OP
  return false;
}

}  // namespace

// `out` = op(`in`) for `count` elements of complex64 (part_bytes 4) or complex128 (8). Returns
// whether there is such an op.
extern "C" bool gpk_complex_function(const char* op, int part_bytes, const void* in, void* out,
                                     long long count) {
  return part_bytes == 4 ? apply_named<float>(op, in, out, count)
                         : apply_named<double>(op, in, out, count);
}
