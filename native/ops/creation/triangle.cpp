#include "ops/creation/triangle.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "ops/cpu_backend.h"
#include "ops/creation/kernels.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "ops/word_type.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using namespace creation;

constexpr std::size_t kAccessBytes = 16;
constexpr unsigned kBlock = 256;
constexpr auto kTriangle = static_cast<std::uint8_t>(CreationKernel::kTriangle);

std::uint64_t variant_key(std::size_t width, int vec) {
  return plan::KeyBuilder().field("width", width, 5).field("vec", vec, 5).key();
}

jit::KernelSpec triangle_spec(std::size_t width, int vec) {
  jit::KernelSpec spec;
  spec.file = "creation/triangle.cuh";
  spec.op = "tril";
  spec.kernel = kTriangle;
  spec.variant = variant_key(width, vec);
  spec.expression = cat("gpk::triangle_kernel<", width == 16 ? "gpk::complex128" : word_type(width),
                        ", ", vec, ">");
  return spec;
}

void check_triangle(const Array& x, const char* op) {
  if (x.ndim() < 2)
    throw InvalidArgument(
        cat(op, ": x has shape ", to_string(x.shape()), ", expected at least two dimensions"));
  if (info(x.dtype()).bits < 8)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": x has dtype ", name(x.dtype()), ", which shares bytes; cast it with astype"));
}

// Beyond these diagonals nothing changes, and sums with a row number cannot overflow.
std::int64_t bounded_diagonal(std::int64_t k, const Dims& shape) {
  return std::clamp(k, -shape[shape.size() - 2], shape[shape.size() - 1]);
}

std::size_t alignment_of(const Array& a, const Array& b) {
  const auto bits = reinterpret_cast<std::uintptr_t>(a.data()) |
                    reinterpret_cast<std::uintptr_t>(b.data()) | std::uintptr_t{256};
  return std::size_t{1} << std::countr_zero(bits);
}

void launch_triangle(const Array& x, const Array& out, std::int64_t k, bool lower) {
  const std::size_t width = itemsize(x.dtype());
  TrianglePlan plan = plan_triangle(width, x.shape(), k, lower, alignment_of(x, out));
  const Kernel& code = kernel(Context::get(x.device().index),
                              {Family::creation, kTriangle, variant_key(width, plan.vec)},
                              [&] { return triangle_spec(width, plan.vec); });
  cu::DevicePtr from = x.device_ptr();
  cu::DevicePtr to = out.device_ptr();
  std::int64_t rows = x.shape()[x.ndim() - 2];
  void* params[] = {
      &from, &to, &plan.bound, &lower, &rows, &plan.accesses_per_row, &plan.num_accesses};
  submit(code, grid_1d(plan.num_accesses, kBlock, kBlock), {&x, &out}, params);
}

Array triangle(const Array& x, std::int64_t k, bool lower, const char* op) {
  check_triangle(x, op);
  Array out = Array::empty(x.shape(), x.dtype(), x.device(), op);
  if (out.size() == 0) return out;
  if (x.device().is_cuda()) {
    launch_triangle(contiguous(x, op), out, k, lower);
  } else {
    run_on_cpu({op, {x, Scalar(bounded_diagonal(k, x.shape()))}, {out}});
  }
  return out;
}

}  // namespace

Array tril(const Array& x, std::int64_t k) { return triangle(x, k, true, "tril"); }
Array triu(const Array& x, std::int64_t k) { return triangle(x, k, false, "triu"); }

TrianglePlan creation::plan_triangle(std::size_t width, const Dims& shape, std::int64_t k,
                                     bool lower, std::size_t alignment) {
  const std::int64_t cols = shape[shape.size() - 1];
  const auto wide = static_cast<std::int64_t>(kAccessBytes / width);
  TrianglePlan plan;
  if (alignment >= kAccessBytes && cols % wide == 0) plan.vec = static_cast<int>(wide);
  plan.bound = bounded_diagonal(k, shape) + (lower ? 1 : 0);
  plan.accesses_per_row = cols / plan.vec;
  plan.num_accesses = num_elements(shape, "tril") / plan.vec;
  return plan;
}

std::string creation::to_string(const TrianglePlan& plan) {
  return cat("triangle(vec=", plan.vec, ", bound=", plan.bound,
             ", accesses_per_row=", plan.accesses_per_row, ", accesses=", plan.num_accesses, ")");
}

void creation::enumerate_triangle(std::vector<jit::KernelSpec>& specs) {
  for (const std::size_t width : {1, 2, 4, 8, 16}) {
    specs.push_back(triangle_spec(width, 1));
    if (width < kAccessBytes)
      specs.push_back(triangle_spec(width, static_cast<int>(kAccessBytes / width)));
  }
}

}  // namespace gpk::ops
