#include "ops/matmul/engine_gemv.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "ops/chain/recorder.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/matmul/finish.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops::gemm {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kBlockWarps = kThreads / 32;

std::int64_t first_of(const Dims& strides) { return strides.empty() ? 0 : strides[0]; }

std::uint64_t variant_bits(const GemvVariant& v) {
  return plan::KeyBuilder()
      .field("dtype", v.dtype, plan::kDTypeBits)
      .field("tile_m", v.tile_m, 8)
      .field("tile_n", v.tile_n, 14)
      .field("tile_k", v.tile_k, 14)
      .field("group", v.group, 8)
      .field("align", v.align, 5)
      .field("stages", v.stages, 7)
      .field("frozen", v.frozen, 1)
      .field("gated", v.gated, 1)
      .field("normed", v.normed, 1)
      .key();
}

// Of propose_few_rows(), whose variants sum in one order.
bool is_for_few_rows(const GemvVariant& v) {
  return v.kernel == GemvKernel::kMmaRows && v.tile_k == 4;
}

jit::KernelSpec spec_of(const GemvVariant& v) {
  jit::KernelSpec spec;
  spec.kernel = static_cast<std::uint8_t>(kGemvKernel + static_cast<int>(v.kernel));
  spec.variant = variant_bits(v);
  spec.op = "matmul";
  // All of them, or none could be used: they agree with each other.
  spec.bundled = is_for_few_rows(v);
  const char* const type = info(v.dtype).cuda_name;
  const int per_lane = 16 / static_cast<int>(itemsize(v.dtype));
  const int order = v.frozen ? kernels::kOrderPrefetch : kernels::kOrderWait;
  switch (v.kernel) {
    case GemvKernel::kRows:
      spec.file = "matmul/gemv.cuh";
      spec.expression = cat("gpk::gemv_kernel<", type, ", ", v.tile_m, ", ", v.tile_n, ", ",
                            v.tile_k, ", ", v.align, ", ", order, ">");
      break;
    case GemvKernel::kColumns:
      spec.file = "matmul/gemv_columns.cuh";
      spec.expression = cat("gpk::gemv_columns_kernel<", type, ", ", v.tile_m, ", ",
                            v.tile_n / per_lane, ", ", v.align, ", 1>");
      break;
    case GemvKernel::kMmaRows:
      spec.file = "matmul/gemv_mma.cuh";
      spec.expression = cat("gpk::gemv_mma_kernel<", type, ", ", v.tile_m / 8, ", ", v.tile_n / 16,
                            ", ", v.tile_k, ", ", order, ", ", v.normed, ", ", v.gated, ">");
      break;
    case GemvKernel::kMmaColumns:
      spec.file = "matmul/gemv_mma.cuh";
      spec.expression = cat("gpk::gemv_mma_columns_kernel<", type, ", ", v.tile_m / 8, ", 1>");
      break;
    case GemvKernel::kRing:
      spec.file = "matmul/gemv_ring.cuh";
      spec.exact_sms = {90, 100, 120};
      spec.expression = cat("gpk::gemv_ring_kernel<", type, ", ", v.tile_m, ", ", v.tile_n, ", ",
                            v.group, ", ", v.stages, ", ", v.tile_k, ", ", order, ">");
      break;
  }
  return spec;
}

// kRows has the order too, but has not run with it on a GPU.
bool gemv_can_prefetch(const GemvVariant& v) {
  return v.kernel == GemvKernel::kRing || is_for_few_rows(v);
}

// Rows of x at multiples of 16 bytes, k contiguous.
Array copy_input(const Array& x, const MatmulProblem& p, const char* op) {
  const auto per = static_cast<std::int64_t>(16 / itemsize(x.dtype()));
  const std::int64_t pitch = ceil_div(p.k, per) * per;
  const Array room = Array::empty({p.m, pitch}, x.dtype(), x.device(), op);
  const Array to({p.m, p.k}, {pitch, 1}, x.dtype(), room.buffer(), room.offset_elems());
  copy_into(to, Array({p.m, p.k}, {p.a_m, p.a_k}, x.dtype(), x.buffer(), x.offset_elems()), op);
  return to;
}

// By their registers, on a multiprocessor.
int resident_blocks(const GemvVariant& v) {
  if (v.tile_m > 8) return 1;
  return v.gated ? 2 : 3;
}

LaunchConfig config_of(const GemvVariant& v, const MatmulProblem& p, const MatmulPlan& plan,
                       int sms) {
  LaunchConfig config;
  config.block[0] = kThreads;
  config.grid[1] = static_cast<unsigned>(plan.splits);
  config.grid[2] = static_cast<unsigned>(p.num_batches());
  if (v.kernel == GemvKernel::kRing) {
    config.block[0] = static_cast<unsigned>(v.group) * 32;
    config.grid[0] = static_cast<unsigned>(gemv_ring_blocks(v.tile_n, sms));
    config.shared_bytes = gemv_ring_bytes(v, p.n, p.k, static_cast<int>(config.grid[0]));
    return config;
  }
  const bool by_rows = v.kernel == GemvKernel::kRows || v.kernel == GemvKernel::kMmaRows;
  const std::int64_t columns = v.gated ? v.tile_n / 2 : v.tile_n;
  const std::int64_t block_n = by_rows ? columns * kBlockWarps / v.group : columns;
  config.grid[0] = static_cast<unsigned>(ceil_div(p.n, block_n) * ceil_div(p.m, v.tile_m));
  if (v.normed) config.shared_bytes = gemv_norm_bytes(p.m, p.k);
  if (is_for_few_rows(v))  // these step through their tiles: as many blocks as are resident
    config.grid[0] = std::min(config.grid[0], static_cast<unsigned>(resident_blocks(v) * sms));
  if (plan.cluster > 1) {
    config.cluster[0] = config.cluster[2] = 1;
    config.cluster[1] = static_cast<unsigned>(plan.cluster);
  }
  return config;
}

kernels::GemvArgs make_args(const MatmulDesc& t, const MatmulPlan& plan) {
  const MatmulProblem& p = t.problem;
  kernels::GemvArgs args{};
  args.m = p.m;
  args.n = p.n;
  args.k = p.k;
  args.x_m = p.a_m;
  args.w_pitch = t.b_k_major() ? p.b_n : p.b_k;
  args.y_m = p.c_m;
  args.y_n = p.c_n;
  args.x_batch = first_of(p.batch_a);
  args.w_batch = first_of(p.batch_b);
  args.y_batch = first_of(p.batch_c);
  args.k_per_split = plan.k_per_split;
  args.k_warps = plan.group;
  args.flags = t.epilogue | (plan.transpose ? kernels::kGemvTransposed : 0u) |
               (t.dtype_c != t.a.dtype ? kernels::kGemvFloatOut : 0u);
  return args;
}

void record_gemv(chain::Recorder& recorder, const GemmCall& call, const MatmulDesc& desc,
                 const MatmulPlan& plan) {
  const GemvVariant variant = gemv_variant(desc, plan);
  const bool fits = is_for_few_rows(variant) && !plan.transpose && !call.norm &&
                    plan.splits == plan.cluster && !gemv_copies_input(desc, plan) &&
                    desc.problem.num_batches() == 1;
  kernels::GemvArgs args = make_args(desc, plan);
  args.x = address(call.a);
  args.w = address(call.b);
  args.y = address(call.c);
  const auto arrays = arrays_of(call);
  const Array* const written[] = {&call.c};
  recorder.add_gemv(args, make_epilogue_args(call, desc.steps), variant.dtype, variant.gated, fits,
                    &call.b, {arrays, written});
}

}  // namespace

void launch_gemv(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                 const char* op) {
  Context& context = Context::get(call.c.device().index);
  const MatmulDesc t = plan.transpose ? transposed(desc) : desc;
  const Array& w = plan.transpose ? call.a : call.b;
  GemvVariant variant = gemv_variant(desc, plan);
  if (chain::Recorder* const recorder = chain::Recorder::current()) {
    record_gemv(*recorder, call, desc, plan);
    return;
  }
  if (w.buffer()->frozen() && gemv_can_prefetch(variant)) {
    GemvVariant frozen = variant;
    frozen.frozen = true;
    if (jit::is_loadable(spec_of(frozen), context.traits().sm)) variant = frozen;
  }
  const Kernel& k = kernel(
      context,
      {Family::matmul, static_cast<std::uint8_t>(kGemvKernel + plan.kernel), variant_bits(variant)},
      [&] { return spec_of(variant); });
  kernels::GemvArgs args = make_args(t, plan);
  const Array& x = plan.transpose ? call.b : call.a;
  std::optional<Array> copied, partial;
  if (gemv_copies_input(desc, plan)) {
    copied = copy_input(x, t.problem, op);
    args.x_m = copied->strides()[0];
  }
  args.x = address(copied ? *copied : x);
  args.w = address(w);
  args.y = address(call.c);
  if (call.norm) {
    args.norm_weight = address(call.norm->weight);
    args.norm_eps = call.norm->eps;
    args.norm_offset = call.norm->offset;
  }
  if (plan.splits > 1 && plan.cluster == 1) {
    partial = make_partial(desc, plan.splits, call.c.device(), op);
    args.partial = address(partial);
  }
  EpilogueArgs epilogue = make_epilogue_args(call, desc.steps);
  void* params[] = {&args, &epilogue};
  auto arrays = arrays_of(call, partial ? &*partial : nullptr);
  if (copied) arrays[plan.transpose ? 1 : 0] = &*copied;
  LaunchConfig config = config_of(variant, t.problem, plan, context.traits().multiprocessor_count);
  config.programmatic = context.traits().sm >= 90;
  submit(k, config, arrays, params);
  if (partial) launch_finish(call, desc, *partial, plan.splits, plan.transpose);
}

jit::KernelSpec spec_gemv(const MatmulDesc& desc, const MatmulPlan& plan) {
  return spec_of(gemv_variant(desc, plan));
}

std::vector<GemvVariant> gemv_variants() {
  std::vector<GemvVariant> variants;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    const int bytes = static_cast<int>(itemsize(dtype));
    const int per_lane = 16 / bytes;
    const auto add = [&](GemvKernel kernel, int tile_m, int tile_n, int tile_k, int align = 16,
                         int group = 1, int stages = 0) {
      GemvVariant v{kernel, dtype, tile_m, tile_n, tile_k, group, stages, align, false};
      variants.push_back(v);
      v.frozen = gemv_can_prefetch(v);
      if (v.frozen) variants.push_back(v);
    };
    for (const int m : {1, 4}) {
      for (int align = bytes; align <= 4; align *= 2) {
        add(GemvKernel::kRows, m, 1, 2, align);
        add(GemvKernel::kColumns, m, 16 * per_lane, 0, align);
      }
      add(GemvKernel::kRows, m, 2, m == 1 ? 4 : 2);
      add(GemvKernel::kColumns, m, 16 * per_lane, 0);
    }
    add(GemvKernel::kColumns, 1, 8 * per_lane, 0);
    for (const int rows : {1, 2}) add(GemvKernel::kRing, 1, rows, 2048 / bytes, 16, 16, 3);
    if (bytes != 2) continue;
    add(GemvKernel::kMmaRows, 8, 16, 8);
    add(GemvKernel::kMmaRows, 8, 32, 4);
    add(GemvKernel::kMmaRows, 16, 32, 4);
    add(GemvKernel::kMmaRows, 32, 32, 2);
    add(GemvKernel::kMmaRows, 32, 32, 4);
    for (const int m : {8, 64}) add(GemvKernel::kMmaRows, m, 16, 4);
    for (const bool normed : {false, true})
      for (const bool gated : {false, true})
        for (const int m : {8, 16, 32})
          if ((gated || normed) && (!normed || m == 8))
            for (const bool frozen : {false, true})
              variants.push_back({GemvKernel::kMmaRows, dtype, m, gated ? 32 : 16, 4, 1, 0, 16,
                                  frozen, gated, normed});
    for (const int m : {8, 16}) add(GemvKernel::kMmaColumns, m, 128, 0);
  }
  return variants;
}

void enumerate_gemv(std::vector<jit::KernelSpec>& specs) {
  for (const GemvVariant& variant : gemv_variants()) specs.push_back(spec_of(variant));
}

}  // namespace gpk::ops::gemm
