#include "ops/matmul/engine_mma.h"

#include <algorithm>

#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "ops/kernel_table.h"
#include "ops/matmul/formats.h"
#include "ops/matmul/kernel_ids.h"
#include "plan/key_builder.h"

namespace gpk::ops::gemm {
namespace {

using plan::is_fp8;

constexpr MmaKernel kAligned[] = {MmaKernel::k128x256, MmaKernel::k128x128, MmaKernel::k64x128,
                                  MmaKernel::k64x64};

// FP8 types have no name of their own there: other kernels only store them.
const char* kernel_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN: return "gpk::float8_e4m3fn";
    case DType::kFloat8E5M2: return "gpk::float8_e5m2";
    default: return info(dtype).cuda_name;
  }
}

// As measured on an H200, with rows that start at lines of 128 bytes and others.
constexpr double kStoreElemsPerUs = 4000.0;
constexpr double kLooseStoreElemsPerUs = 2140.0;  // 16 bytes at a time; single elements are faster
constexpr double kLooseLines = 1.34;              // for operands that are copied by 16 bytes
constexpr double kLooseFillUs = 1.45;             // copies of four bytes, or through registers

// What selects code, besides the tile.
struct Variant {
  DType a, b;
  bool a_k_major, b_k_major;
  std::uint8_t align;  // of both: 16, 4, or an element
  bool split = false;  // float32 as two TF32 numbers

  [[nodiscard]] std::uint64_t bits() const {
    return plan::KeyBuilder()
        .field("a", a, plan::kDTypeBits)
        .field("b", b, plan::kDTypeBits)
        .field("a_k_major", a_k_major, 1)
        .field("b_k_major", b_k_major, 1)
        .field("align", align, 5)
        .field("split", split, 1)
        .key();
  }
};

// What the kernels store as C.
DType own_result(DType operand) {
  switch (operand) {
    case DType::kInt8: return DType::kInt32;
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2: return DType::kBFloat16;
    default: return operand;
  }
}

std::uint8_t align_class(const MatmulDesc& d) {
  const auto least = std::min(d.align_a, d.align_b);
  const auto element = static_cast<std::uint8_t>(itemsize(d.a.dtype));
  if (least >= 16) return 16;
  return least >= 4 && !is_fp8(d.a.dtype) ? 4 : element;
}

Variant variant_of(const MatmulDesc& oriented) {
  return {oriented.a.dtype,     oriented.b.dtype,      oriented.a_k_major(),
          oriented.b_k_major(), align_class(oriented), oriented.tf32x3};
}

bool runs_on(const MatmulDesc& d, const GemmMachine& machine) {
  return machine.sm >= (is_fp8(d.a.dtype) ? 89 : 80);
}

// Which kernels there are, so that the number of variants stays small: see enumerate_mma().
bool has_kernel(MmaKernel kernel, const Variant& v) {
  if (v.split) return kernel == MmaKernel::k64x64;  // twice the fragments: registers
  if ((v.align == 16) != (kernel != MmaKernel::kLoose)) return false;
  if (is_fp8(v.a)) {
    const bool k_major = v.a_k_major && v.b_k_major;
    if (v.a != DType::kFloat8E4M3FN || v.b != DType::kFloat8E4M3FN)
      return kernel == MmaKernel::k128x128 && k_major;
    if (kernel == MmaKernel::kLoose) return k_major;
    return kernel == MmaKernel::k128x128 || kernel == MmaKernel::k64x64;
  }
  return v.a != DType::kFloat32 || kernel != MmaKernel::k64x128;
}

bool on_lines(std::int64_t pitch, DType dtype) {
  return pitch * static_cast<std::int64_t>(itemsize(dtype)) % 128 == 0;
}

// SM90 and SM100 keep their full rate for other instructions (and have FP8 only there: float16 is
// multiplied instead). Copies narrower than 16 bytes, and more so those through registers, take
// more time than the multiply-adds.
double rate(const MatmulDesc& d, const GemmMachine& machine, const Variant& v) {
  double share = 0.85;
  if (machine.sm >= 90 && machine.sm < 100) share = 0.55;
  if (machine.sm >= 100 && machine.sm < 120) share = 0.2;
  if (machine.sm >= 90 && machine.sm < 120 && is_fp8(d.a.dtype)) share /= 2.0;
  if (d.a.dtype == DType::kFloat32) share *= 0.92;
  if (v.split) share /= 3.0;
  if (v.align == 4 && d.a.dtype != DType::kFloat32) share *= 0.53;
  if (v.align < 4) share *= 0.29;
  const MatmulProblem& p = d.problem;
  if (v.align == 16 && (!on_lines(v.a_k_major ? p.a_m : p.a_k, d.a.dtype) ||
                        !on_lines(v.b_k_major ? p.b_n : p.b_k, d.b.dtype)))
    share /= kLooseLines;
  return share * tensor_flops_per_us(machine, d.a.dtype);
}

jit::KernelSpec spec_of(MmaKernel kernel, const Variant& v) {
  const GemmTile tile = mma_tile(kernel, itemsize(v.a));
  const WarpTile warp = warp_tile(kernel);
  jit::KernelSpec spec;
  spec.file = "matmul/gemm_mma.cuh";
  spec.kernel = static_cast<std::uint8_t>(kMmaKernel + static_cast<int>(kernel));
  spec.variant = v.bits();
  spec.op = "matmul";
  spec.bundled = false;
  if (is_fp8(v.a)) spec.exact_sms = {89, 90, 100, 120};
  if (v.split) {
    spec.file = "matmul/gemm_split.cuh";
    spec.expression =
        cat("gpk::gemm_split_kernel<", v.a_k_major, ", ", v.b_k_major, ", ", int{v.align}, ">");
    return spec;
  }
  spec.expression = cat("gpk::gemm_mma_kernel<", kernel_type(v.a), ", ", kernel_type(v.b), ", ",
                        kernel_type(own_result(v.a)), ", ", tile.m, ", ", tile.n, ", ", tile.k,
                        ", ", warp.m, ", ", warp.n, ", ", tile.stages, ", ", v.a_k_major, ", ",
                        v.b_k_major, ", ", int{v.align}, ", ", int{v.align}, ">");
  return spec;
}

}  // namespace

GemmTile mma_tile(MmaKernel kernel, std::size_t itemsize) {
  // Bytes of K per line, and the rest as in GemmTile.
  struct Row {
    std::int32_t m, n, line_bytes, stages, threads, max_blocks;
    double share, alone;
  };
  static constexpr Row kRows[] = {
      {128, 256, 128, 3, 256, 1, 1.00, 1.0}, {128, 128, 64, 3, 128, 2, 0.95, 0.8},
      {64, 128, 128, 3, 128, 3, 0.85, 0.7},  {64, 64, 128, 3, 128, 4, 0.67, 0.5},
      {128, 128, 64, 4, 256, 1, 0.75, 1.0},
  };
  const Row& row = kRows[static_cast<int>(kernel)];
  return {row.m,          row.n,       row.line_bytes / static_cast<std::int32_t>(itemsize),
          row.stages,     row.threads, (row.m + row.n) * row.line_bytes * row.stages,
          row.max_blocks, row.share,   row.alone};
}

WarpTile warp_tile(MmaKernel kernel) {
  switch (kernel) {
    case MmaKernel::k64x128: return {32, 64};
    case MmaKernel::k64x64: return {32, 32};
    case MmaKernel::kLoose: return {64, 32};
    default: return {64, 64};
  }
}

bool takes_mma(const MatmulDesc& d) {
  if (!d.tf32x3) return takes_tensor_cores(d);
  MatmulDesc rounded = d;
  rounded.tf32 = true;
  return takes_tensor_cores(rounded);
}

void propose_mma(const MatmulDesc& desc, const GemmMachine& machine,
                 std::vector<MatmulPlan>& plans) {
  if (!takes_mma(desc) || !runs_on(desc, machine) || !tiles_fit(desc)) return;
  const OrientedDesc oriented = orient(desc);
  const Variant v = variant_of(oriented.desc);
  const bool wide = oriented.desc.c_n_major() && desc.align_c >= 16;  // gemm_store.cuh
  const bool loose = wide && !on_lines(oriented.desc.problem.c_m, desc.dtype_c);
  for (int i = 0; i <= static_cast<int>(MmaKernel::kLoose); ++i) {
    const auto which = static_cast<MmaKernel>(i);
    if (!has_kernel(which, v)) continue;
    GemmTile tile = mma_tile(which, itemsize(v.a));
    tile.store_elems_per_us = loose ? kLooseStoreElemsPerUs : kStoreElemsPerUs;
    if (which == MmaKernel::kLoose) tile.fill_us = kLooseFillUs;
    propose_tile(oriented, machine, MatmulEngine::mma, static_cast<std::uint8_t>(i), tile,
                 rate(oriented.desc, machine, v), own_result(v.a), plans);
  }
}

jit::KernelSpec spec_mma(const MatmulDesc& desc, const MatmulPlan& plan) {
  return spec_of(static_cast<MmaKernel>(plan.kernel),
                 variant_of(plan.transpose ? transposed(desc) : desc));
}

void launch_mma(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                const char* op) {
  const auto which = static_cast<MmaKernel>(plan.kernel);
  const Variant v = variant_of(plan.transpose ? transposed(desc) : desc);
  Context& context = Context::get(call.c.device().index);
  const Kernel& k = kernel(
      context, {Family::matmul, static_cast<std::uint8_t>(kMmaKernel + plan.kernel), v.bits()},
      [&] { return spec_of(which, v); });
  launch_tiles(call, desc, plan, k, mma_tile(which, itemsize(v.a)), own_result(v.a), op);
}

void enumerate_mma(std::vector<jit::KernelSpec>& specs) {
  const auto add = [&](MmaKernel kernel, DType a, DType b, std::uint8_t align) {
    for (const bool a_k_major : {true, false})
      for (const bool b_k_major : {true, false}) {
        const Variant v{a, b, a_k_major, b_k_major, align};
        if (has_kernel(kernel, v)) specs.push_back(spec_of(kernel, v));
      }
  };
  constexpr DType kFp8[] = {DType::kFloat8E4M3FN, DType::kFloat8E5M2};
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32, DType::kInt8}) {
    for (const MmaKernel kernel : kAligned) add(kernel, dtype, dtype, 16);
    add(MmaKernel::kLoose, dtype, dtype, 4);
    if (itemsize(dtype) < 4)
      add(MmaKernel::kLoose, dtype, dtype, static_cast<std::uint8_t>(itemsize(dtype)));
  }
  for (const bool a_k_major : {true, false})
    for (const bool b_k_major : {true, false}) {
      const DType f32 = DType::kFloat32;
      for (const std::uint8_t align : {std::uint8_t{16}, std::uint8_t{4}})
        specs.push_back(spec_of(MmaKernel::k64x64, {f32, f32, a_k_major, b_k_major, align, true}));
    }
  for (const DType a : kFp8)
    for (const DType b : kFp8) {
      for (const MmaKernel kernel : kAligned) add(kernel, a, b, 16);
      add(MmaKernel::kLoose, a, b, 1);
    }
}

}  // namespace gpk::ops::gemm
