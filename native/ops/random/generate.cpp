#include "ops/random/generate.h"

#include <algorithm>

#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "kernels/args/random.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops::random {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kUnroll = 2;
constexpr int kStoreBytes = 16;

// Integers are generated as unsigned words of their size.
DType kernel_dtype(DrawKind kind, DType dtype) {
  if (kind != DrawKind::kInteger && kind != DrawKind::kWideInteger) return dtype;
  switch (itemsize(dtype)) {
    case 1: return DType::kUInt8;
    case 2: return DType::kUInt16;
    case 4: return DType::kUInt32;
    default: return DType::kUInt64;
  }
}

int per_block(DrawKind kind, DType dtype) {
  return kind == DrawKind::kWideInteger || dtype == DType::kFloat64 ? 2 : 4;
}

int blocks_per_store(DrawKind kind, DType dtype) {
  return std::max(1, kStoreBytes / (per_block(kind, dtype) * static_cast<int>(itemsize(dtype))));
}

std::string draw_type(DrawKind kind, const char* type) {
  switch (kind) {
    case DrawKind::kUniform: return cat("gpk::UniformDraw<", type, ">");
    case DrawKind::kNormal: return cat("gpk::NormalDraw<", type, ">");
    case DrawKind::kExponential: return cat("gpk::ExponentialDraw<", type, ">");
    case DrawKind::kInteger: return cat("gpk::IntegerDraw<", type, ">");
    case DrawKind::kWideInteger: return "gpk::WideIntegerDraw";
    case DrawKind::kBernoulli: break;
  }
  return "gpk::BernoulliDraw";
}

std::uint64_t variant_key(DType dtype) {
  return plan::KeyBuilder().field("dtype", dtype, plan::kDTypeBits).key();
}

jit::KernelSpec generate_spec(DrawKind kind, DType dtype) {
  const char* type = info(dtype).cuda_name;
  jit::KernelSpec spec;
  spec.file = "random/generate.cuh";
  spec.op = draw_op(kind);
  spec.kernel = static_cast<std::uint8_t>(kind);
  spec.variant = variant_key(dtype);
  spec.expression = cat("gpk::generate_kernel<", type, ", ", draw_type(kind, type), ", ",
                        blocks_per_store(kind, dtype), ", ", kUnroll, ">");
  return spec;
}

}  // namespace

const char* draw_op(DrawKind kind) {
  switch (kind) {
    case DrawKind::kUniform: return "random_uniform";
    case DrawKind::kNormal: return "random_normal";
    case DrawKind::kExponential: return "random_exponential";
    case DrawKind::kInteger:
    case DrawKind::kWideInteger: return "random_integers";
    case DrawKind::kBernoulli: break;
  }
  return "random_bernoulli";
}

GeneratePlan plan_generate(DrawKind kind, DType dtype, std::int64_t count, std::uintptr_t address) {
  GeneratePlan plan;
  plan.blocks = blocks_per_store(kind, dtype);
  plan.elems = plan.blocks * per_block(kind, dtype);
  plan.aligned = address % (static_cast<std::size_t>(plan.elems) * itemsize(dtype)) == 0;
  const std::int64_t per_grid_block = std::int64_t{kThreads} * kUnroll * plan.elems;
  plan.num_blocks = grid_1d(count, per_grid_block, kThreads).grid[0];
  return plan;
}

std::string to_string(const GeneratePlan& plan) {
  return cat("generate(blocks=", plan.blocks, ", elems=", plan.elems, ", aligned=", plan.aligned,
             ", num_blocks=", plan.num_blocks, ")");
}

void launch_generate(const Array& out, const RandomState& state, DrawKind kind, const void* draw) {
  const DType dtype = kernel_dtype(kind, out.dtype());
  const GeneratePlan plan =
      plan_generate(kind, dtype, out.size(), reinterpret_cast<std::uintptr_t>(out.data()));
  const Kernel& k = kernel(Context::get(out.device().index),
                           {Family::random, static_cast<std::uint8_t>(kind), variant_key(dtype)},
                           [&] { return generate_spec(kind, dtype); });
  cu::DevicePtr pointer = out.device_ptr();
  std::int64_t count = out.size();
  kernels::RandomStream stream{
      {static_cast<std::uint32_t>(state.key), static_cast<std::uint32_t>(state.key >> 32)},
      state.position_low,
      state.position_high,
      0};
  int aligned = plan.aligned ? 1 : 0;
  LaunchConfig config;
  config.grid[0] = plan.num_blocks;
  config.block[0] = kThreads;
  void* params[] = {&pointer, &count, &stream, const_cast<void*>(draw), &aligned};
  submit(k, config, {&out}, params);
}

void enumerate_generate(std::vector<jit::KernelSpec>& specs) {
  for (const DTypeInfo& row : gpk::detail::kDTypes) {
    if (is_storage_only(row.dtype)) continue;
    if (row.kind == DTypeClass::kFloat)
      for (const DrawKind kind : {DrawKind::kUniform, DrawKind::kNormal, DrawKind::kExponential})
        specs.push_back(generate_spec(kind, row.dtype));
    if (row.kind == DTypeClass::kUnsigned)
      specs.push_back(generate_spec(DrawKind::kInteger, row.dtype));
  }
  specs.push_back(generate_spec(DrawKind::kWideInteger, DType::kUInt64));
  specs.push_back(generate_spec(DrawKind::kBernoulli, DType::kBool));
}

}  // namespace gpk::ops::random
