#include "ops/matmul/engine_simt.h"

#include "base/text.h"
#include "core/context.h"
#include "ops/kernel_table.h"
#include "ops/matmul/formats.h"
#include "ops/matmul/kernel_ids.h"
#include "plan/key_builder.h"

namespace gpk::ops::gemm {
namespace {

constexpr SimtKernel kKernels[] = {SimtKernel::k128x256, SimtKernel::k64x128, SimtKernel::k64x64};

// Rows of a thread, and columns.
constexpr int kPerM = 8;
int per_n(SimtKernel kernel) { return kernel == SimtKernel::k128x256 ? 16 : 8; }

// What selects code, besides the tile. A K-major operand is copied element by element,
// whatever its alignment.
struct Variant {
  bool a_k_major, b_k_major;
  std::uint8_t align_a, align_b;  // 16 or 4

  [[nodiscard]] std::uint64_t bits() const {
    return plan::KeyBuilder()
        .field("a_k_major", a_k_major, 1)
        .field("b_k_major", b_k_major, 1)
        .field("align_a", align_a, 5)
        .field("align_b", align_b, 5)
        .key();
  }
};

Variant make_variant(bool a_k_major, bool b_k_major, std::uint8_t align) {
  constexpr std::uint8_t kElement = 4;
  return {a_k_major, b_k_major, a_k_major ? kElement : align, b_k_major ? kElement : align};
}

Variant variant_of(const MatmulDesc& oriented) {
  const bool a_k = oriented.a_k_major(), b_k = oriented.b_k_major();
  const bool wide = (a_k || oriented.align_a == 16) && (b_k || oriented.align_b == 16);
  return make_variant(a_k, b_k, wide ? 16 : 4);
}

bool has_kernel(SimtKernel kernel, const Variant& v) {
  const bool is_narrow = (!v.a_k_major && v.align_a == 4) || (!v.b_k_major && v.align_b == 4);
  return !is_narrow || kernel != SimtKernel::k128x256;
}

jit::KernelSpec spec_of(SimtKernel kernel, const Variant& v) {
  const GemmTile tile = simt_tile(kernel);
  jit::KernelSpec spec;
  spec.file = "matmul/gemm_simt.cuh";
  spec.kernel = static_cast<std::uint8_t>(kSimtKernel + static_cast<int>(kernel));
  spec.variant = v.bits();
  spec.op = "matmul";
  spec.bundled = false;
  spec.expression = cat("gpk::gemm_simt_kernel<", tile.m, ", ", tile.n, ", ", tile.k, ", ", kPerM,
                        ", ", per_n(kernel), ", ", tile.stages, ", ", v.a_k_major, ", ",
                        v.b_k_major, ", ", int{v.align_a}, ", ", int{v.align_b}, ">");
  return spec;
}

}  // namespace

GemmTile simt_tile(SimtKernel kernel) {
  struct Row {
    std::int32_t m, n, k, stages, max_blocks;
    double share, alone;
  };
  static constexpr Row kRows[] = {
      {128, 256, 16, 3, 1, 0.94, 1.0},
      {64, 128, 16, 3, 3, 0.94, 0.8},
      {64, 64, 16, 3, 6, 0.92, 0.5},
  };
  constexpr std::int32_t kPad = 4;  // of a line that is transposed on the way in
  const Row& row = kRows[static_cast<int>(kernel)];
  return {row.m,
          row.n,
          row.k,
          row.stages,
          row.m / kPerM * (row.n / per_n(kernel)),
          (row.m + row.n + 2 * kPad) * row.k * row.stages * 4,
          row.max_blocks,
          row.share,
          row.alone};
}

bool takes_simt(const MatmulDesc& d) {
  return is_dense(d) && d.a.dtype == DType::kFloat32 && d.b.dtype == DType::kFloat32 &&
         d.dtype_c == DType::kFloat32;
}

void propose_simt(const MatmulDesc& desc, const GemmMachine& machine,
                  std::vector<MatmulPlan>& plans) {
  if (machine.sm < 80 || !takes_simt(desc) || !tiles_fit(desc)) return;
  const OrientedDesc oriented = orient(desc);
  const Variant v = variant_of(oriented.desc);
  for (const SimtKernel which : kKernels)
    if (has_kernel(which, v))
      propose_tile(oriented, machine, MatmulEngine::simt, static_cast<std::uint8_t>(which),
                   simt_tile(which), simt_flops_per_us(machine), DType::kFloat32, plans);
}

jit::KernelSpec spec_simt(const MatmulDesc& desc, const MatmulPlan& plan) {
  return spec_of(static_cast<SimtKernel>(plan.kernel),
                 variant_of(plan.transpose ? transposed(desc) : desc));
}

void launch_simt(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                 const char* op) {
  const auto which = static_cast<SimtKernel>(plan.kernel);
  const Variant v = variant_of(plan.transpose ? transposed(desc) : desc);
  Context& context = Context::get(call.c.device().index);
  const Kernel& k = kernel(
      context, {Family::matmul, static_cast<std::uint8_t>(kSimtKernel + plan.kernel), v.bits()},
      [&] { return spec_of(which, v); });
  launch_tiles(call, desc, plan, k, simt_tile(which), DType::kFloat32, op);
}

void enumerate_simt(std::vector<jit::KernelSpec>& specs) {
  for (const SimtKernel kernel : kKernels)
    for (const bool a_k_major : {true, false})
      for (const bool b_k_major : {true, false})
        for (const std::uint8_t align : {std::uint8_t{16}, std::uint8_t{4}}) {
          if (align == 4 && a_k_major && b_k_major) continue;  // the same kernel
          const Variant v = make_variant(a_k_major, b_k_major, align);
          if (has_kernel(kernel, v)) specs.push_back(spec_of(kernel, v));
        }
}

}  // namespace gpk::ops::gemm
