#include "ops/random/variate.h"

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "core/view.h"
#include "kernels/args/random.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/random/random.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace random {
namespace {

using Kind = InvalidArgument::Kind;

constexpr unsigned kThreads = 256;
constexpr unsigned kMaxBlocks = 1u << 20;  // the kernel strides over the rest
constexpr std::uint8_t kFirstKernel = 16;  // behind those of DrawKind

struct VariateInfo {
  const char* op;
  const char* draw;
};

VariateInfo info_of(VariateKind kind) {
  switch (kind) {
    case VariateKind::kGamma: return {"random_gamma", "GammaDraw"};
    case VariateKind::kPoisson: return {"random_poisson", "PoissonDraw"};
    case VariateKind::kBinomial: break;
  }
  return {"random_binomial", "BinomialDraw"};
}

std::uint8_t kernel_number(VariateKind kind) {
  return static_cast<std::uint8_t>(kFirstKernel + static_cast<std::uint8_t>(kind));
}

std::uint64_t variant_key(DType dtype) {
  return plan::KeyBuilder().field("dtype", dtype, plan::kDTypeBits).key();
}

jit::KernelSpec variate_spec(VariateKind kind, DType dtype) {
  const VariateInfo row = info_of(kind);
  jit::KernelSpec spec;
  spec.file = "random/variate.cuh";
  spec.op = row.op;
  spec.kernel = kernel_number(kind);
  spec.variant = variant_key(dtype);
  spec.expression =
      cat("gpk::variate_kernel<", gpk::info(dtype).cuda_name, ", gpk::", row.draw, ">");
  return spec;
}

// A parameter in the kernel's form.
struct Parameter {
  double value = 0.0;
  std::optional<Array> array;  // contiguous float64, with the result's shape
};

const Array* array_of(const RandomParameter& parameter) { return std::get_if<Array>(&parameter); }

void check_array(const RandomResult& result, const char* name, const RandomParameter& parameter) {
  const Array* array = array_of(parameter);
  if (array == nullptr) return;
  check_device(*array, name, result.device, "the result", result.op);
  if (is_complex(array->dtype()) || is_storage_only(array->dtype()))
    throw InvalidArgument(Kind::kType, cat(result.op, ": ", name, " has dtype ",
                                           gpk::name(array->dtype()), ", expected real numbers"));
  try {
    broadcast_to(*array, result.shape, result.op);
  } catch (const InvalidArgument&) {
    throw InvalidArgument(cat(result.op, ": ", name, " has shape ", to_string(array->shape()),
                              ", which does not broadcast to the size ", to_string(result.shape)));
  }
}

// `expected` describes the numbers that `valid` accepts.
template <class Valid>
void check_parameter(const RandomResult& result, const char* name, const RandomParameter& parameter,
                     const char* expected, const Valid& valid) {
  check_array(result, name, parameter);
  const double* number = std::get_if<double>(&parameter);
  if (number != nullptr && !valid(*number))
    throw InvalidArgument(cat(result.op, ": ", name, " is ", *number, ", expected ", expected));
}

Parameter on_device(const RandomResult& result, const RandomParameter& parameter) {
  if (const auto* number = std::get_if<double>(&parameter)) return {*number, std::nullopt};
  const Array whole = broadcast_to(std::get<Array>(parameter), result.shape, result.op);
  return {0.0, contiguous(cast(whole, DType::kFloat64, result.op), result.op)};
}

CpuArg on_cpu(const RandomParameter& parameter) {
  if (const auto* number = std::get_if<double>(&parameter)) return Scalar(*number);
  return std::get<Array>(parameter);
}

void launch_variates(const Array& out, const RandomState& state, VariateKind kind,
                     const Parameter& first, const Parameter& second) {
  const Kernel& k = kernel(Context::get(out.device().index),
                           {Family::random, kernel_number(kind), variant_key(out.dtype())},
                           [&] { return variate_spec(kind, out.dtype()); });
  cu::DevicePtr pointer = out.device_ptr();
  std::int64_t count = out.size();
  kernels::RandomStream stream{
      {static_cast<std::uint32_t>(state.key), static_cast<std::uint32_t>(state.key >> 32)},
      state.position_low,
      state.position_high,
      0};
  kernels::VariateArgs args{address(first.array), address(second.array), first.value, second.value};
  LaunchConfig config;
  config.grid[0] =
      static_cast<unsigned>(std::min<std::int64_t>(ceil_div(count, kThreads), kMaxBlocks));
  config.block[0] = kThreads;
  void* params[] = {&pointer, &count, &stream, &args};
  submit(k, config,
         {&out, first.array ? &*first.array : nullptr, second.array ? &*second.array : nullptr},
         params);
}

// After the checks.
Array draw(const RandomResult& result, const RandomState& state, VariateKind kind,
           const RandomParameter& first, const std::optional<RandomParameter>& second) {
  Array out = Array::empty(result.shape, result.dtype, result.device, result.op);
  if (out.size() == 0) return out;
  if (!out.device().is_cuda()) {
    std::vector<CpuArg> args{Scalar(state.key), Scalar(state.position_low),
                             Scalar(std::uint64_t{state.position_high}), on_cpu(first)};
    if (second) args.push_back(on_cpu(*second));
    run_on_cpu({info_of(kind).op, std::move(args), {out}});
    return out;
  }
  launch_variates(out, state, kind, on_device(result, first),
                  second ? on_device(result, *second) : Parameter{});
  return out;
}

void check_int64(const RandomResult& result) {
  if (result.dtype != DType::kInt64)
    throw InvalidArgument(
        Kind::kType, cat(result.op, ": dtype is ", gpk::name(result.dtype), ", expected int64"));
}

bool is_not_negative(double x) { return x >= 0.0; }

}  // namespace

void enumerate_variates(std::vector<jit::KernelSpec>& specs) {
  for (const DTypeInfo& row : gpk::detail::kDTypes)
    if (row.kind == DTypeClass::kFloat && !is_storage_only(row.dtype))
      specs.push_back(variate_spec(VariateKind::kGamma, row.dtype));
  specs.push_back(variate_spec(VariateKind::kPoisson, DType::kInt64));
  specs.push_back(variate_spec(VariateKind::kBinomial, DType::kInt64));
}

}  // namespace random

Array random_gamma(const RandomResult& result, const RandomParameter& shape,
                   const RandomParameter& scale, const RandomState& state) {
  using namespace random;
  if (!is_float(result.dtype) || is_storage_only(result.dtype))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(result.op, ": dtype is ", name(result.dtype),
                              ", expected float16, bfloat16, float32 or float64"));
  check_parameter(result, "shape", shape, "0 or more", is_not_negative);
  check_parameter(result, "scale", scale, "0 or more", is_not_negative);
  return draw(result, state, VariateKind::kGamma, shape, scale);
}

Array random_poisson(const RandomResult& result, const RandomParameter& mean,
                     const RandomState& state) {
  using namespace random;
  check_int64(result);
  const double most = 0x1p63 - 10.0 * std::sqrt(0x1p63);
  check_parameter(result, "lam", mean, "0 or more, and small enough for int64",
                  [&](double x) { return x >= 0.0 && x <= most; });
  return draw(result, state, VariateKind::kPoisson, mean, std::nullopt);
}

Array random_binomial(const RandomResult& result, const RandomParameter& n,
                      const RandomParameter& probability, const RandomState& state) {
  using namespace random;
  check_int64(result);
  check_parameter(result, "n", n, "a whole number from 0 to 2**53",
                  [](double x) { return x >= 0.0 && x <= 0x1p53 && x == std::floor(x); });
  check_parameter(result, "p", probability, "0 <= p <= 1",
                  [](double x) { return x >= 0.0 && x <= 1.0; });
  return draw(result, state, VariateKind::kBinomial, n, probability);
}

}  // namespace gpk::ops
