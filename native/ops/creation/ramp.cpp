#include "ops/creation/ramp.h"

#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "ops/cpu_backend.h"
#include "ops/creation/kernels.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using namespace creation;

constexpr unsigned kBlock = 256;

const char* word_of(DType dtype) {
  switch (itemsize(dtype)) {
    case 1: return "unsigned char";
    case 2: return "unsigned short";
    case 4: return "unsigned int";
    default: return "unsigned long long";
  }
}

// Keyed by generated code, not by dtype: int32 and uint32 share a kernel.
std::uint64_t variant_key(CreationKernel which, DType dtype) {
  plan::KeyBuilder key;
  if (which == CreationKernel::kRealRamp) return key.field("dtype", dtype, plan::kDTypeBits).key();
  return key.field("itemsize", itemsize(dtype), 4).key();
}

jit::KernelSpec ramp_spec(const char* op, CreationKernel which, DType dtype) {
  static constexpr const char* kNames[] = {"real", "floor", "integer"};
  jit::KernelSpec spec;
  spec.file = "creation/ramp.cuh";
  spec.op = op;
  spec.kernel = static_cast<std::uint8_t>(which);
  spec.variant = variant_key(which, dtype);
  spec.expression =
      cat("gpk::", kNames[spec.kernel], "_ramp_kernel<",
          which == CreationKernel::kRealRamp ? info(dtype).cuda_name : word_of(dtype), ">");
  return spec;
}

const Kernel& ramp_kernel(const Array& out, const char* op, CreationKernel which) {
  return kernel(
      Context::get(out.device().index),
      {Family::creation, static_cast<std::uint8_t>(which), variant_key(which, out.dtype())},
      [&] { return ramp_spec(op, which, out.dtype()); });
}

void launch_integer(const Array& out, const char* op, std::uint64_t start, std::uint64_t step) {
  cu::DevicePtr to = out.device_ptr();
  std::int64_t n = out.size();
  void* params[] = {&to, &start, &step, &n};
  submit(ramp_kernel(out, op, CreationKernel::kIntegerRamp), grid_1d(n, kBlock, kBlock), {&out},
         params);
}

void launch_real(const Array& out, const char* op, kernels::RealRamp re, kernels::RealRamp im,
                 std::int64_t last_at) {
  cu::DevicePtr to = out.device_ptr();
  std::int64_t n = out.size();
  const bool floors = is_integer(out.dtype());
  void* params[] = {&to, &re, &im, &last_at, &n};
  void* floor_params[] = {&to, &re, &last_at, &n};
  submit(ramp_kernel(out, op, floors ? CreationKernel::kFloorRamp : CreationKernel::kRealRamp),
         grid_1d(n, kBlock, kBlock), {&out}, floors ? floor_params : params);
}

std::uint64_t low_bits(const Scalar& scalar) {
  return std::visit(
      [](auto value) -> std::uint64_t {
        if constexpr (std::is_integral_v<decltype(value)>) {
          return static_cast<std::uint64_t>(value);
        } else {
          return 0;
        }
      },
      scalar);
}

double as_double(const Scalar& scalar, const char* op) {
  return std::visit(
      [op](auto value) -> double {
        if constexpr (std::is_same_v<decltype(value), std::complex<double>>) {
          throw InvalidArgument(InvalidArgument::Kind::kType,
                                cat(op, ": start, stop and step must be real numbers"));
        } else {
          return static_cast<double>(value);
        }
      },
      scalar);
}

// The dtype to compute in, cast afterwards, where the kernels lack the requested one.
DType computed_in(DType dtype, DType otherwise) {
  return dtype == DType::kBool || is_storage_only(dtype) ? otherwise : dtype;
}

}  // namespace

Array arange(std::int64_t count, const Scalar& start, const Scalar& step, DType dtype,
             Device device) {
  if (const DType wide = computed_in(dtype, DType::kFloat64); wide != dtype)
    return copy_as(arange(count, start, step, wide, device), dtype, "arange");
  if (is_integer(dtype) && count > 0) to_bytes(start, dtype, "arange");
  const double from = as_double(start, "arange");
  const double by = as_double(step, "arange");
  Array out = Array::empty({count}, dtype, device, "arange");
  if (count == 0) return out;
  if (!device.is_cuda()) {
    run_on_cpu({"arange", {start, step}, {out}});
  } else if (is_integer(dtype)) {
    launch_integer(out, "arange", low_bits(start), low_bits(step));
  } else {
    kernels::RealRamp ramp;
    ramp.start = from;
    ramp.step = (from + by) - from;  // the step NumPy sees between its first two elements
    launch_real(out, "arange", ramp, {}, -1);
  }
  return out;
}

kernels::RealRamp creation::plan_linspace(double start, double stop, std::int64_t count,
                                          bool endpoint) {
  const auto steps = static_cast<double>(endpoint ? count - 1 : count);
  const double delta = stop - start;
  kernels::RealRamp ramp{start, delta, 0, stop};
  if (steps > 0) {
    ramp.step = delta / steps;
    if (ramp.step == 0) {  // underflow: divide last, so that elements do not collapse
      ramp.step = delta;
      ramp.div = steps;
    }
  }
  return ramp;
}

std::string creation::to_string(const kernels::RealRamp& ramp) {
  return cat("ramp(start=", ramp.start, ", step=", ramp.step, ", div=", ramp.div,
             ", last=", ramp.last, ")");
}

Array linspace(std::complex<double> start, std::complex<double> stop, std::int64_t count,
               bool endpoint, DType dtype, Device device) {
  if (count < 0) throw InvalidArgument(cat("linspace: num is ", count, ", expected a number >= 0"));
  if (const DType wide = computed_in(dtype, DType::kFloat64); wide != dtype)
    return copy_as(linspace(start, stop, count, endpoint, wide, device), dtype, "linspace");
  if (!is_complex(dtype) && (start.imag() != 0 || stop.imag() != 0))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat("linspace: start and stop are complex, dtype is ", name(dtype)));
  Array out = Array::empty({count}, dtype, device, "linspace");
  if (count == 0) return out;
  if (!device.is_cuda()) {
    run_on_cpu({"linspace", {Scalar(start), Scalar(stop), Scalar(endpoint)}, {out}});
  } else {
    launch_real(out, "linspace", plan_linspace(start.real(), stop.real(), count, endpoint),
                plan_linspace(start.imag(), stop.imag(), count, endpoint),
                endpoint && count > 1 ? count - 1 : -1);
  }
  return out;
}

void creation::enumerate_ramp(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64,
                            DType::kComplex64, DType::kComplex128})
    specs.push_back(ramp_spec("linspace", CreationKernel::kRealRamp, dtype));
  for (const DType dtype : {DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64}) {
    specs.push_back(ramp_spec("linspace", CreationKernel::kFloorRamp, dtype));
    specs.push_back(ramp_spec("arange", CreationKernel::kIntegerRamp, dtype));
  }
}

}  // namespace gpk::ops
