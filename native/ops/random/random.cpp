#include "ops/random/random.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "kernels/args/random.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/output.h"
#include "ops/random/generate.h"

namespace gpk::ops {
namespace {

using namespace random;

using Kind = InvalidArgument::Kind;

Array target(const RandomResult& result) {
  if (!result.out) return Array::empty(result.shape, result.dtype, result.device, result.op);
  const Array& out = *result.out;
  if (!(out.shape() == result.shape))
    throw InvalidArgument(cat(result.op, ": out has shape ", to_string(out.shape()), ", size is ",
                              to_string(result.shape)));
  if (out.dtype() != result.dtype)
    throw InvalidArgument(Kind::kType, cat(result.op, ": out has dtype ", name(out.dtype()),
                                           ", the numbers are ", name(result.dtype)));
  check_writable(out, result.op, "out");
  return out;
}

// Called after the checks; generates the numbers on the array's device.
template <class Draw>
Array generate(const RandomResult& result, const RandomState& state, DrawKind kind,
               const Draw& draw, std::vector<CpuArg> arguments) {
  Array out = target(result);
  if (out.size() == 0) return out;
  if (!out.device().is_cuda()) {
    std::vector<CpuArg> args{Scalar(state.key), Scalar(state.position_low),
                             Scalar(std::uint64_t{state.position_high})};
    args.insert(args.end(), arguments.begin(), arguments.end());
    run_on_cpu({draw_op(kind), std::move(args), {out}});
    return out;
  }
  const Array whole =
      out.is_contiguous() ? out : Array::empty(out.shape(), out.dtype(), out.device(), result.op);
  launch_generate(whole, state, kind, &draw);
  if (!out.is_contiguous()) copy_into(out, whole, result.op);
  return out;
}

void check_float(const RandomResult& result) {
  if (!is_float(result.dtype) || is_storage_only(result.dtype))
    throw InvalidArgument(Kind::kType, cat(result.op, ": dtype is ", name(result.dtype),
                                           ", expected float16, bfloat16, float32 or float64"));
}

void check_scale(const char* op, double scale) {
  if (!(scale >= 0.0) || std::signbit(scale))
    throw InvalidArgument(cat(op, ": scale is ", scale, ", expected 0 or more (scale < 0)"));
}

// A floating-point draw: its parameters in the dtype's arithmetic type.
template <template <class> class Args, class... Params>
Array generate_reals(const RandomResult& result, const RandomState& state, DrawKind kind,
                     Params... params) {
  if (result.dtype == DType::kFloat64)
    return generate(result, state, kind, Args<double>{params...}, {Scalar(params)...});
  return generate(result, state, kind, Args<float>{static_cast<float>(params)...},
                  {Scalar(params)...});
}

// Sign and bits of a 64-bit two's complement number.
struct WideInt {
  bool negative;
  std::uint64_t bits;
  friend bool operator<(const WideInt& a, const WideInt& b) {
    return a.negative != b.negative ? a.negative : a.bits < b.bits;
  }
};

WideInt wide_int(const char* op, const char* argument, const Scalar& scalar) {
  if (const auto* value = std::get_if<std::int64_t>(&scalar))
    return {*value < 0, static_cast<std::uint64_t>(*value)};
  if (const auto* value = std::get_if<std::uint64_t>(&scalar)) return {false, *value};
  if (const auto* value = std::get_if<bool>(&scalar)) return {false, *value ? 1u : 0u};
  throw InvalidArgument(Kind::kType, cat(op, ": ", argument, " is ", gpk::to_string(scalar),
                                         ", expected an integer"));
}

void check_integers(const RandomResult& result, const Scalar& low, const Scalar& high) {
  const DTypeInfo& row = info(result.dtype);
  const bool is_bool = result.dtype == DType::kBool;
  if (!is_bool && (!is_integer(result.dtype) || is_storage_only(result.dtype)))
    throw InvalidArgument(Kind::kType, cat(result.op, ": dtype is ", name(result.dtype),
                                           ", expected an integer dtype or bool"));
  WideInt least{false, 0};
  WideInt most{false, is_bool ? 1 : ~std::uint64_t{0} >> (64 - row.bits)};
  if (row.kind == DTypeClass::kSigned) {
    most.bits >>= 1;
    least = {true, ~most.bits};
  }
  const WideInt from = wide_int(result.op, "low", low);
  const WideInt to = wide_int(result.op, "high", high);
  if (from < least || most < from)
    throw InvalidArgument(cat(result.op, ": low is out of bounds for ", name(result.dtype), ": ",
                              gpk::to_string(low)));
  if (to < least || most < to)
    throw InvalidArgument(cat(result.op, ": high is out of bounds for ", name(result.dtype),
                              ": the greatest value is ", gpk::to_string(high)));
  if (to < from)
    throw InvalidArgument(cat(result.op, ": low >= high: no integers from ", gpk::to_string(low),
                              " to ", gpk::to_string(high)));
}

}  // namespace

std::int64_t random_blocks(std::int64_t count, bool wide) {
  const std::int64_t per_block = wide ? 2 : 4;
  return count / per_block + (count % per_block != 0 ? 1 : 0);
}

Array random_uniform(const RandomResult& result, double low, double high,
                     const RandomState& state) {
  check_float(result);
  const double range = high - low;
  const bool wide = result.dtype == DType::kFloat64;
  const double limit = wide ? std::numeric_limits<double>::max()
                            : static_cast<double>(std::numeric_limits<float>::max());
  if (!(std::abs(range) <= limit) || !(std::abs(low) <= limit))
    throw InvalidArgument(
        Kind::kOverflow,
        cat(result.op, ": high - low range exceeds valid bounds: ", low, " to ", high));
  if (range < 0.0)
    throw InvalidArgument(cat(result.op, ": high - low < 0: low is ", low, ", high is ", high));
  return generate_reals<kernels::UniformArgs>(result, state, DrawKind::kUniform, low, range);
}

Array random_normal(const RandomResult& result, double loc, double scale,
                    const RandomState& state) {
  check_float(result);
  check_scale(result.op, scale);
  return generate_reals<kernels::NormalArgs>(result, state, DrawKind::kNormal, loc, scale);
}

Array random_exponential(const RandomResult& result, double scale, const RandomState& state) {
  check_float(result);
  check_scale(result.op, scale);
  return generate_reals<kernels::ExponentialArgs>(result, state, DrawKind::kExponential, scale);
}

Array random_integers(const RandomResult& result, const Scalar& low, const Scalar& high,
                      const RandomState& state) {
  check_integers(result, low, high);
  const std::uint64_t first = wide_int(result.op, "low", low).bits;
  const std::uint64_t span = wide_int(result.op, "high", high).bits - first;
  const bool wide = span > 0xffffffffu;
  const kernels::IntegerArgs draw{first, span + 1};  // 0 for 2**64
  return generate(result, state, wide ? DrawKind::kWideInteger : DrawKind::kInteger, draw,
                  {Scalar(first), Scalar(span)});
}

Array random_bernoulli(const RandomResult& result, double probability, const RandomState& state) {
  if (!(probability >= 0.0 && probability <= 1.0))
    throw InvalidArgument(cat(result.op, ": p is ", probability, ", expected 0 <= p <= 1"));
  const auto threshold = static_cast<std::uint64_t>(std::ceil(probability * 0x1p32));
  const kernels::BernoulliArgs draw{threshold};
  return generate(result, state, DrawKind::kBernoulli, draw, {Scalar(threshold)});
}

}  // namespace gpk::ops
