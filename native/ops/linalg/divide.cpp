#include "ops/linalg/divide.h"

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "kernels/args/linalg.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/fill.h"
#include "ops/kernel_table.h"
#include "ops/linalg/check.h"
#include "ops/linalg/leaves.h"
#include "ops/linalg/stack.h"
#include "ops/reduction/reduce.h"
#include "ops/submit.h"

namespace gpk::ops::linalg {
namespace {

using kernels::DivideField;
using kernels::DivideLink;
using kernels::kDivideThreads;

constexpr double kPadding = 8.0;  // above every eigenvalue of a matrix scaled to elements below 2

struct DivideSource {
  LinalgKernel kernel;
  const char* name;
  const char* reference;
  bool plain = false;  // no template: its numbers are double for both dtypes
};
constexpr DivideSource kTear{LinalgKernel::kTear, "divide_tear", "linalg_leaf_tear"};
constexpr DivideSource kDeflate{LinalgKernel::kDeflate, "divide_deflate", "linalg_leaf_deflate"};
constexpr DivideSource kRoots{LinalgKernel::kRoots, "divide_roots", "linalg_leaf_roots", true};
constexpr DivideSource kWeights{LinalgKernel::kWeights, "divide_weights", "linalg_leaf_weights",
                                true};
constexpr DivideSource kVectors{LinalgKernel::kVectors, "divide_vectors", "linalg_leaf_vectors"};

std::uint64_t variant_of(const DivideSource& source, DType dtype) {
  return source.plain ? 0 : static_cast<std::uint64_t>(dtype);
}

jit::KernelSpec divide_spec(const DivideSource& source, DType dtype) {
  jit::KernelSpec spec;
  spec.file = "linalg/divide.cuh";
  spec.op = source.name;
  spec.kernel = static_cast<std::uint8_t>(source.kernel);
  spec.variant = variant_of(source, dtype);
  spec.expression =
      cat("gpk::", source.name, source.plain ? "" : cat("<", info(dtype).cuda_name, ">"));
  return spec;
}

const Kernel& find(const DivideSource& source, Device device, DType dtype) {
  return kernel(
      Context::get(device.index),
      {Family::linalg, static_cast<std::uint8_t>(source.kernel), variant_of(source, dtype)},
      [&] { return divide_spec(source, dtype); });
}

// Fields and links of all merges of a level.
struct Division {
  Array work;   // double [batch, fields, order]
  Array links;  // int32 [batch, links, order]
  Array off;    // double [batch, order]
  std::int64_t half = 0;

  [[nodiscard]] std::int64_t order() const { return off.shape()[1]; }
  [[nodiscard]] std::int64_t merges() const { return off.shape()[0] * (order() / (2 * half)); }
  [[nodiscard]] Array values() const {
    return squeeze(slice_axis(work, 1, static_cast<int>(DivideField::kValue), 1, 1), {1}, "divide");
  }
};

// A step of all merges, a block for each `per_block` slots of them.
void run(const DivideSource& source, const Division& division, const Array& q, const Array& u,
         std::int64_t per_block) {
  if (!q.device().is_cuda()) {
    run_on_cpu({source.reference,
                {division.off, q},
                {division.work, division.links, u},
                {{"half", Scalar(division.half)}}});
    return;
  }
  kernels::DivideArgs args{};
  args.work = address(division.work);
  args.links = address(division.links);
  args.off = address(division.off);
  args.q = matrix_of(q);
  args.u = matrix_of(u);
  args.n = static_cast<int>(division.order());
  args.half = static_cast<int>(division.half);
  LaunchConfig config;
  config.grid[0] =
      static_cast<unsigned>(division.merges() * ceil_div(2 * division.half, per_block));
  config.block[0] = kDivideThreads;
  void* params[] = {&args};
  submit(find(source, q.device(), q.dtype()), config,
         {&division.work, &division.links, &division.off, &q, &u}, params);
}

// From eigenvectors of halves, [2 merges, half, half], to those of merges.
Array merge(const Division& division, const Array& q, const char* op) {
  constexpr std::int64_t kSlots = kDivideThreads / 32;  // a warp has one
  const std::int64_t merges = division.merges();
  const std::int64_t half = division.half;
  const Array u = Array::empty({2 * merges, 2 * half, half}, q.dtype(), q.device(), op);
  run(kDeflate, division, q, u, 2 * half);
  run(kRoots, division, q, u, kSlots);
  run(kWeights, division, q, u, kSlots);
  run(kVectors, division, q, u, kSlots);
  return reshape(product(q, transposed(u, op), op), {merges, 2 * half, 2 * half}, op);
}

// The eigenvectors of the leaves; their eigenvalues into `division`.
Array diagonalise_leaves(const Array& bands, const DividePlan& plan, const Division& division,
                         DType dtype, const Array& status, const char* op) {
  const std::int64_t batch = bands.shape()[0];
  const std::int64_t leaves = batch * plan.leaves;
  const Array torn = Array::empty({leaves, plan.leaf, plan.leaf}, dtype, bands.device(), op);
  if (!bands.device().is_cuda()) {
    run_on_cpu({kTear.reference, {bands}, {torn}});
  } else {
    kernels::TearArgs args{};
    args.bands = address(bands);
    args.leaves = matrix_of(torn);
    args.count = torn.size();
    args.n = static_cast<int>(plan.order());
    args.leaf = static_cast<int>(plan.leaf);
    void* params[] = {&args};
    submit(find(kTear, bands.device(), dtype), grid_1d(torn.size(), kDivideThreads, kDivideThreads),
           {&bands, &torn}, params);
  }
  const Array leaf_status = new_status({batch, plan.leaves}, bands.device(), op);
  const EighLeaf leaf = eigh_leaf(torn, reshape(leaf_status, {leaves}, op), false, false, op);
  bitwise_or(status, reduce(OpId::max, leaf_status, along({1})), &status);
  copy_into(division.values(), reshape(leaf.w, {batch, plan.order()}, op), op);
  return leaf.v;
}

}  // namespace

DividePlan plan_divide(std::int64_t n) {
  constexpr std::int64_t kMaxLeaf = 32;
  DividePlan plan{n, 1};
  while (plan.leaf > kMaxLeaf) {
    plan.leaves *= 2;
    plan.leaf = ceil_div(n, plan.leaves);
  }
  return plan;
}

std::string to_string(const DividePlan& plan) {
  return cat("divide(leaf=", plan.leaf, ", leaves=", plan.leaves, ")");
}

TridiagonalSpectrum divide_and_conquer(const Array& bands, const Array& status, const char* op) {
  const std::int64_t batch = bands.shape()[0];
  const std::int64_t n = bands.shape()[2];
  const Device device = bands.device();
  const DividePlan plan = plan_divide(n);
  const Array scale = power_of_two_scale(bands, status, op);
  const Array padded = full({batch, 2, plan.order()}, Scalar(0.0), DType::kFloat64, device, op);
  copy_into(slice_axis(padded, 2, 0, n, 1), divide(bands, scale), op);
  if (plan.order() > n) fill(block(padded, 0, 1, n, plan.order() - n), Scalar(kPadding), op);
  const auto fields = static_cast<std::int64_t>(DivideField::kCount);
  const auto links = static_cast<std::int64_t>(DivideLink::kCount);
  Division division{Array::empty({batch, fields, plan.order()}, DType::kFloat64, device, op),
                    Array::empty({batch, links, plan.order()}, DType::kInt32, device, op),
                    contiguous(squeeze(slice_axis(padded, 1, 1, 1, 1), {1}, op), op)};
  Array q = diagonalise_leaves(padded, plan, division, bands.dtype(), status, op);
  for (division.half = plan.leaf; division.half < plan.order(); division.half *= 2)
    q = merge(division, q, op);
  const Array w = cast(slice_axis(division.values(), 1, 0, n, 1), bands.dtype(), op);
  return {multiply(w, squeeze(scale, {2}, op)), block(q, 0, n, 0, n)};
}

void enumerate_divide(std::vector<jit::KernelSpec>& specs) {
  for (const DivideSource* source : {&kTear, &kDeflate, &kRoots, &kWeights, &kVectors})
    for (const DType dtype : {DType::kFloat32, DType::kFloat64})
      if (!source->plain || dtype == DType::kFloat64) specs.push_back(divide_spec(*source, dtype));
}

}  // namespace gpk::ops::linalg
