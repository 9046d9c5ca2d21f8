#include "ops/matmul/engine_general.h"

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/matmul/finish.h"
#include "ops/matmul/general_plan.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/matmul/matmul_args.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops::gemm {
namespace {

constexpr unsigned kThreads = 256;

// Signed and unsigned integers share kernels where the result has the operands' width: wrapping
// multiplication has the same bits.
DType kernel_dtype(DType operand, DType c) {
  switch (operand) {
    case DType::kInt8: return c == DType::kInt8 ? DType::kUInt8 : DType::kInt8;
    case DType::kInt16: return DType::kUInt16;
    case DType::kInt32: return DType::kUInt32;
    case DType::kInt64: return DType::kUInt64;
    default: return operand;
  }
}

// In the bundle: types that are summed in themselves, and bool. Others need NVRTC.
bool is_bundled(DType dtype) { return accumulator(dtype) == dtype || dtype == DType::kBool; }

bool is_tiled(GeneralKernel kernel) {
  return kernel == GeneralKernel::kTile64 || kernel == GeneralKernel::kTile128;
}

std::uint64_t variant_bits(DType dtype, bool conjugate) {
  return plan::KeyBuilder()
      .field("dtype", dtype, plan::kDTypeBits)
      .field("conjugate", conjugate, 1)
      .key();
}

jit::KernelSpec spec_of(DType dtype, GeneralKernel kernel, bool conjugate) {
  jit::KernelSpec spec;
  spec.kernel = static_cast<std::uint8_t>(kGeneralKernel + static_cast<int>(kernel));
  spec.variant = variant_bits(dtype, conjugate);
  spec.op = conjugate ? "vecdot" : "matmul";
  spec.bundled = is_bundled(dtype);
  if (is_tiled(kernel)) {
    spec.file = "matmul/tiled.cuh";
    spec.expression = cat("gpk::matmul_tiled_kernel<", info(dtype).cuda_name, ", ",
                          itemsize(accumulator(dtype)) == 16 ? 8 : 16, ", ",
                          kernel == GeneralKernel::kTile128 ? 8 : 4, ", 4>");
  } else {
    spec.file = "matmul/direct.cuh";
    spec.expression = cat(
        kernel == GeneralKernel::kRows ? "gpk::matmul_rows_kernel<" : "gpk::matmul_direct_kernel<",
        info(dtype).cuda_name, ", ", conjugate, ">");
  }
  return spec;
}

void launch_kernel(const GemmCall& call, const MatmulPlan& plan, MatmulArgs& args,
                   const Array* partial) {
  const auto which = static_cast<GeneralKernel>(plan.kernel);
  const DType dtype = kernel_dtype(call.a.dtype(), call.c.dtype());
  Context& context = Context::get(call.c.device().index);
  const Kernel& k = kernel(context,
                           {Family::matmul, static_cast<std::uint8_t>(kGeneralKernel + plan.kernel),
                            variant_bits(dtype, call.conjugate)},
                           [&] { return spec_of(dtype, which, call.conjugate); });
  const std::initializer_list<const Array*> arrays{&call.a, &call.b, &call.c, partial};
  if (!is_tiled(which)) {
    const std::int64_t items = args.splits * args.num_batches * args.m * args.n;
    void* params[] = {&args};
    submit(k, grid_1d(items, which == GeneralKernel::kRows ? kThreads / 32 : kThreads, kThreads),
           arrays, params);
    return;
  }
  auto tiles_m = static_cast<unsigned>(ceil_div(args.m, plan.tile_m));
  auto tiles_n = static_cast<unsigned>(ceil_div(args.n, plan.tile_n));
  LaunchConfig config = grid_1d(args.num_batches * tiles_m * tiles_n, 1, kThreads);
  config.grid[1] = static_cast<unsigned>(args.splits);
  void* params[] = {&args, &tiles_m, &tiles_n};
  submit(k, config, arrays, params);
}

// A cast that leaves broadcast dimensions broadcast.
Array cast_once(const Array& array, DType dtype, const char* op) {
  if (array.dtype() == dtype) return array;
  Dims shape = array.shape();
  for (int d = 0; d < array.ndim(); ++d)
    if (array.strides()[d] == 0) shape[d] = 1;
  const Array once(shape, array.strides(), array.dtype(), array.buffer(), array.offset_elems());
  return broadcast_to(copy_as(once, dtype, op), array.shape(), op);
}

DType widened(DType dtype) {
  return plan::is_fp8(dtype) && jit::jit_available() ? DType::kFloat16 : accumulator(dtype);
}

bool has_kernels(DType dtype, DType c) {
  return !is_storage_only(dtype) && (is_bundled(kernel_dtype(dtype, c)) || jit::jit_available());
}

}  // namespace

void launch_general(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                    const char* op) {
  if (!has_kernels(desc.a.dtype, desc.dtype_c)) {
    GemmCall wide = call;
    wide.a = cast_once(call.a, widened(desc.a.dtype), op);
    wide.b = cast_once(call.b, widened(desc.b.dtype), op);
    const MatmulDesc wide_desc = make_desc(wide);
    launch_general(wide, wide_desc,
                   plan_general(wide_desc, gemm_machine_of(Context::get(call.c.device().index))),
                   op);
    return;
  }
  // A conjugated operand stays first: vecdot has one row and one column, either order will do.
  const bool swap = plan.transpose && !desc.conjugate;
  MatmulArgs args = make_matmul_args(swap ? transposed(desc.problem) : desc.problem, plan.splits,
                                     plan.k_per_split);
  args.a = address(swap ? call.b : call.a);
  args.b = address(swap ? call.a : call.b);
  args.c = address(call.c);
  std::optional<Array> partial;
  if (needs_finish(desc, plan)) {
    partial = make_partial(desc, plan.splits, call.c.device(), op);
    args.partial = address(partial);
  }
  launch_kernel(call, plan, args, partial ? &*partial : nullptr);
  if (partial) launch_finish(call, desc, *partial, plan.splits, swap);
}

// There is always one: types without a kernel are widened.
jit::KernelSpec spec_general(const MatmulDesc& desc, const MatmulPlan& plan) {
  (void)desc;
  (void)plan;
  return {};
}

void enumerate_general(std::vector<jit::KernelSpec>& specs) {
  for (const DTypeInfo& row : gpk::detail::kDTypes) {
    const DType dtype = row.dtype;
    if (is_storage_only(dtype)) continue;
    if (kernel_dtype(dtype, dtype) != dtype && dtype != DType::kInt8) continue;
    specs.push_back(spec_of(dtype, GeneralKernel::kTile64, false));
    if (itemsize(accumulator(dtype)) == 4)
      specs.push_back(spec_of(dtype, GeneralKernel::kTile128, false));
    for (const bool conjugate : {false, true}) {
      if (conjugate && !is_complex(dtype)) continue;
      specs.push_back(spec_of(dtype, GeneralKernel::kDirect, conjugate));
      specs.push_back(spec_of(dtype, GeneralKernel::kRows, conjugate));
    }
  }
}

}  // namespace gpk::ops::gemm
