// Packed weights times more than 64 rows of float16 or bfloat16: tiles are dequantised in the main
// loop. Kernel: kernels/matmul/gemm_packed.cuh. The engine dequantize is faster where so many rows
// share the weights that a dense copy of them pays, which the model decides.
#include <bit>

#include "base/text.h"
#include "core/context.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/matmul/gemm_tiles.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/matmul/packed_operand.h"
#include "plan/key_builder.h"

namespace gpk::ops::gemm {
namespace {

constexpr int kNumPackedTiles = 3;
constexpr std::int32_t kPackedTileK = 64;
constexpr std::int32_t kPackedStages = 4;

struct PackedTile {
  std::int32_t m, n, threads, warp_m, warp_n, max_blocks;
  double share, alone;
};

const PackedTile& packed_tile(int kernel) {
  static constexpr PackedTile kRows[kNumPackedTiles] = {
      {128, 128, 256, 64, 32, 1, 0.85, 1.0},
      {128, 64, 128, 64, 32, 2, 0.75, 0.75},
      {64, 64, 128, 32, 32, 3, 0.55, 0.5},
  };
  return kRows[kernel];
}

// Stages of x (two bytes) and of packed w, and two dense tiles of w.
GemmTile gemm_tile(int kernel, bool nibbles) {
  const PackedTile& row = packed_tile(kernel);
  const std::int32_t stage = kPackedTileK * (2 * row.m + (nibbles ? row.n / 2 : row.n));
  return {row.m,          row.n,       kPackedTileK,
          kPackedStages,  row.threads, kPackedStages * stage + 2 * 2 * kPackedTileK * row.n,
          row.max_blocks, row.share,   row.alone};
}

struct PackedGemmVariant {
  int code, scale_code;
  bool scaled;  // in the main loop; else the epilogue has the scales
  DType dtype;

  [[nodiscard]] std::uint64_t bits() const {
    return plan::KeyBuilder()
        .field("code", code, 4)
        .field("scale", scale_code, 2)
        .field("scaled", scaled, 1)
        .field("dtype", dtype, plan::kDTypeBits)
        .key();
  }
  friend bool operator==(const PackedGemmVariant&, const PackedGemmVariant&) = default;
};

PackedGemmVariant variant_of(const PackedLayout& layout, DType dtype) {
  return {layout.code(), layout.scale_code(), layout.group != 0, dtype};
}

std::uint8_t kernel_id(int kernel) { return static_cast<std::uint8_t>(kPackedGemmKernel + kernel); }

jit::KernelSpec packed_gemm_spec(int kernel, const PackedGemmVariant& v) {
  const PackedTile& row = packed_tile(kernel);
  jit::KernelSpec spec;
  spec.file = "matmul/gemm_packed.cuh";
  spec.kernel = kernel_id(kernel);
  spec.variant = v.bits();
  spec.op = "linear";
  spec.bundled = false;
  spec.expression = cat("gpk::gemm_packed_kernel<", v.code, ", ", info(v.dtype).cuda_name, ", ",
                        v.scaled, ", ", v.scale_code, ", ", row.m, ", ", row.n, ", ", row.warp_m,
                        ", ", row.warp_n, ", ", kPackedStages, ">");
  return spec;
}

bool x_is_direct(const MatmulDesc& desc) { return desc.a_k_major() && desc.align_a == 16; }

// The desc with x as launch_packed_gemm() copies it.
MatmulDesc direct_desc(const MatmulDesc& desc) {
  MatmulDesc direct = desc;
  if (!x_is_direct(desc)) {
    direct.problem.a_m = desc.problem.k;
    direct.problem.a_k = 1;
    direct.align_a = 16;
  }
  return direct;
}

// mma.sync's share of the peak; on SM 90 from 256 rows of 8192x28672 on an H200, which took 450 to
// 513 us by format.
double rate(const GemmMachine& machine, DType dtype) {
  double share = 0.85;
  if (machine.sm >= 90 && machine.sm < 100) share = 0.38;
  if (machine.sm >= 100 && machine.sm < 120) share = 0.2;
  return share * plan::tensor_flops_per_us(machine, dtype);
}

kernels::PackedTileArgs tile_args(const PackedWeight& weight) {
  const std::int64_t group = weight.layout.group;
  return {static_cast<const unsigned char*>(address(weight.values)),
          address(*weight.scales),
          address(weight.zero_points),
          address(weight.tensor_scale),
          weight.n(),
          weight.values.strides()[0],
          weight.scales->shape()[1],
          weight.layout.blocks ? 7 : 0,
          group == 0 ? 63 : std::countr_zero(static_cast<std::uint64_t>(group))};
}

}  // namespace

bool takes_packed_gemm(const MatmulDesc& d) { return takes_packed(d); }

void propose_packed_gemm(const MatmulDesc& desc, const GemmMachine& machine,
                         std::vector<MatmulPlan>& plans) {
  // Which of the two engines is faster depends on the number of rows: an invariant batch has one.
  if (!takes_packed_gemm(desc) || machine.sm < 80 || desc.batch_invariant || desc.few_rows) return;
  const MatmulProblem& p = desc.problem;
  if (!p.batch_shape.empty() || p.m <= kMaxFewRows || p.k == 0 || p.k % 8 != 0 || !desc.b_k_major())
    return;
  const OrientedDesc direct{false, direct_desc(desc)};
  if (!tiles_fit(direct.desc)) return;
  const PackedLayout layout = *packed_layout(desc.b);
  for (int i = 0; i < kNumPackedTiles; ++i) {
    const std::size_t before = plans.size();
    propose_tile(direct, machine, MatmulEngine::packed_gemm, static_cast<std::uint8_t>(i),
                 gemm_tile(i, layout.is_nibble()), rate(machine, desc.a.dtype), desc.a.dtype,
                 plans);
    if (!x_is_direct(desc) && plans.size() > before)
      plans.back().predicted_us +=
          static_cast<float>(plan::kLaunchUs + 4.0 * static_cast<double>(p.m * p.k) /
                                                   plan::dram_bytes_per_us(machine));
  }
}

void launch_packed_gemm(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                        const char* op) {
  Context& context = Context::get(call.c.device().index);
  const PackedLayout layout = *packed_layout(desc.b);
  const PackedGemmVariant variant = variant_of(layout, desc.a.dtype);
  const Kernel& code = kernel(context, {Family::matmul, kernel_id(plan.kernel), variant.bits()},
                              [&] { return packed_gemm_spec(plan.kernel, variant); });
  GemmCall direct = call;
  if (!x_is_direct(desc)) direct.a = copy_as(call.a, call.a.dtype(), op);
  kernels::PackedTileArgs packed = tile_args(packed_operand(call));
  launch_tiles(direct, direct_desc(desc), plan, code, gemm_tile(plan.kernel, layout.is_nibble()),
               desc.a.dtype, op, &packed);
}

jit::KernelSpec spec_packed_gemm(const MatmulDesc& desc, const MatmulPlan& plan) {
  return packed_gemm_spec(plan.kernel, variant_of(*packed_layout(desc.b), desc.a.dtype));
}

void enumerate_packed_gemm(std::vector<jit::KernelSpec>& specs) {
  const auto add = [&](const PackedLayout& layout) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
      for (int i = 0; i < kNumPackedTiles; ++i) {
        specs.push_back(packed_gemm_spec(i, variant_of(layout, dtype)));
        specs.back().bundled = is_bundled(layout);
      }
  };
  for (const QuantFormat format : {QuantFormat::kInt8, QuantFormat::kInt4})
    for (const bool zero_points : {false, true})
      for (const std::int64_t group : {0, 128}) add({format, group, zero_points, false});
  add({QuantFormat::kFp8, 0, false, false});
  add({QuantFormat::kFp8, 128, false, false});
  add({QuantFormat::kFp8E5M2, 0, false, false});
  add({QuantFormat::kNvfp4, 16, false, false});
  add({QuantFormat::kMxfp4, 32, false, false});
  add({QuantFormat::kMxfp8, 32, false, false});
  add({QuantFormat::kNf4, 64, false, false});
}

}  // namespace gpk::ops::gemm
