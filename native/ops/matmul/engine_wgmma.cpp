// The engine of SM90's wgmma with TMA. Kernel:
// kernels/matmul/gemm_wgmma.cuh; which tiles, in what order of preference: wgmma_plan.
#include <algorithm>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/matmul/finish.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/matmul/tma_matrix.h"
#include "ops/matmul/wgmma_plan.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops::gemm {
namespace {

// Kernels shorter than this gain from programmatic dependent launch.
constexpr float kProgrammaticUs = 20.0f;

// What selects code.
struct Variant {
  DType a, b, c;
  MatmulPlan plan;
  bool a_m_major, b_n_major;
  WgmmaStoreKind store;
  unsigned epilogue;
  bool fast;
};

const char* cuda_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN: return "gpk::float8_e4m3fn";
    case DType::kFloat8E5M2: return "gpk::float8_e5m2";
    default: return info(dtype).cuda_name;
  }
}

Variant variant_of(const MatmulDesc& output, const MatmulPlan& plan) {
  return {output.a.dtype,      output.b.dtype,      output.dtype_c,      plan,
          !output.a_k_major(), !output.b_k_major(), wgmma_store(output), output.epilogue,
          output.fast_accum};
}

std::uint64_t key_of(const Variant& v) {
  return plan::KeyBuilder()
      .field("a", v.a, plan::kDTypeBits)
      .field("b", v.b, plan::kDTypeBits)
      .field("c", v.c, plan::kDTypeBits)
      .field("tile_m / 64", v.plan.tile_m / 64, 3)
      .field("tile_n / 8", v.plan.tile_n / 8, 6)
      .field("stages", v.plan.stages, 4)
      .field("cluster", v.plan.cluster, 4)
      .field("split", (v.plan.kernel & kWgmmaSplit) != 0, 1)
      .field("a_m_major", v.a_m_major, 1)
      .field("b_n_major", v.b_n_major, 1)
      .field("store", v.store, 2)
      .field("epilogue", v.epilogue, 8)
      .field("fast", v.fast, 1)
      .key();
}

jit::KernelSpec spec_of(const Variant& v) {
  jit::KernelSpec spec;
  spec.file = "matmul/gemm_wgmma.cuh";
  spec.kernel = kWgmmaKernel;
  spec.variant = key_of(v);
  spec.op = "matmul";
  spec.exact_sms = {90};
  spec.bundled = false;
  const bool split = (v.plan.kernel & kWgmmaSplit) != 0;
  spec.expression = cat("gpk::gemm_wgmma_kernel<", cuda_name(v.a), ", ", cuda_name(v.b), ", ",
                        cuda_name(v.c), ", ", v.plan.tile_m, ", ", v.plan.tile_n, ", ",
                        wgmma_reps(v.plan.tile_m), ", ", v.plan.stages, ", ", v.plan.cluster, ", ",
                        split, ", ", v.a_m_major ? 1 : 0, ", ", v.b_n_major ? 1 : 0, ", ",
                        static_cast<int>(v.store), ", ", v.epilogue, ", ", v.fast, ">");
  return spec;
}

std::int64_t batch_stride(const Dims& strides) { return strides.empty() ? 0 : strides[0]; }

cu::TensorMap map_a(const Array& a, const MatmulDesc& desc, const MatmulPlan& plan, bool mn_major) {
  const MatmulProblem& p = desc.problem;
  const int type = tma_type(desc.a.dtype, desc.tf32);
  const std::int64_t batch = batch_stride(p.batch_a);
  if (mn_major)
    return tma_map({a, p.m, p.k, p.a_k, p.num_batches(), batch}, type, 64, plan.tile_k, 128);
  return tma_map({a, p.k, p.m, p.a_m, p.num_batches(), batch}, type, plan.tile_k, plan.tile_m, 128);
}

cu::TensorMap map_b(const Array& b, const MatmulDesc& desc, const MatmulPlan& plan, bool mn_major) {
  const MatmulProblem& p = desc.problem;
  const int type = tma_type(desc.b.dtype, desc.tf32);
  const std::int64_t batch = batch_stride(p.batch_b);
  const int share = (plan.kernel & kWgmmaSplit) != 0 ? 1 : plan.cluster;
  if (mn_major)
    return tma_map({b, p.n, p.k, p.b_k, p.num_batches(), batch}, type, 64, plan.tile_k / share,
                   128);
  return tma_map({b, p.k, p.n, p.b_n, p.num_batches(), batch}, type, plan.tile_k,
                 plan.tile_n / share, 128);
}

// Split-K: one range after the other, all batches of each.
std::int64_t c_batch_stride(const MatmulProblem& p, const MatmulPlan& plan) {
  return plan.splits > 1 ? p.m * p.n : batch_stride(p.batch_c);
}

cu::TensorMap map_c(const Array& c, const MatmulDesc& desc, const MatmulPlan& plan,
                    WgmmaStoreKind store) {
  if (store == WgmmaStoreKind::kStrided) return {};
  const MatmulProblem& p = desc.problem;
  const int type = tma_type(desc.dtype_c);
  const std::int64_t batches = p.num_batches() * plan.splits;
  const std::int64_t batch = c_batch_stride(p, plan);
  const int chunk = wgmma_chunk(plan, store, desc.dtype_c);
  if (store == WgmmaStoreKind::kColumns)
    return tma_map({c, p.m, p.n, p.c_n, batches, batch}, type, 64, chunk, 128);
  const int row_bytes = chunk * static_cast<int>(itemsize(desc.dtype_c));
  return tma_map({c, p.n, p.m, p.c_m, batches, batch}, type, chunk, 64,
                 row_bytes == 16 ? 0 : row_bytes);
}

kernels::GemmWgmmaArgs args_of(const Array& c, const MatmulDesc& desc, const MatmulPlan& plan) {
  const MatmulProblem& p = desc.problem;
  const bool split = (plan.kernel & kWgmmaSplit) != 0;
  const auto narrow = [](std::int64_t x) { return static_cast<std::int32_t>(x); };
  kernels::GemmWgmmaArgs args{};
  args.target = {c.data(),
                 p.c_m,
                 p.c_n,
                 c_batch_stride(p, plan),
                 narrow(p.m),
                 narrow(p.n),
                 plan.transpose ? 1 : 0};
  args.tiles_m = narrow(ceil_div(ceil_div(p.m, plan.tile_m), split ? 1 : plan.cluster));
  args.tiles_n = narrow(ceil_div(p.n, plan.tile_n));
  args.batches = narrow(p.num_batches());
  args.splits = narrow(plan.splits);
  args.k_steps = narrow(ceil_div(p.k, plan.tile_k));
  args.k_steps_per_split = args.k_steps;
  if (split) args.k_steps_per_split = narrow(ceil_div(args.k_steps, plan.cluster));
  if (plan.splits > 1) args.k_steps_per_split = narrow(plan.k_per_split / plan.tile_k);
  args.group = plan.group;
  args.a_batch = batch_stride(p.batch_a) != 0 ? 1 : 0;
  args.b_batch = batch_stride(p.batch_b) != 0 ? 1 : 0;
  return args;
}

// `desc` is wgmma_output(), `a` and `b` in its order, `c` where it goes.
void launch_tiles(const GemmCall& call, const Array& a, const Array& b, const Array& c,
                  const MatmulDesc& desc, const MatmulPlan& plan) {
  Context& context = Context::get(c.device().index);
  const Variant variant = variant_of(desc, plan);
  const Kernel& k = kernel(context, {Family::matmul, kWgmmaKernel, key_of(variant)},
                           [&] { return spec_of(variant); });
  cu::TensorMap maps[3] = {map_a(a, desc, plan, variant.a_m_major),
                           map_b(b, desc, plan, variant.b_n_major),
                           map_c(c, desc, plan, variant.store)};
  kernels::GemmWgmmaArgs args = args_of(c, desc, plan);
  EpilogueArgs epilogue = make_epilogue_args(call, desc.steps);
  const std::int64_t units =
      std::int64_t{args.batches} * args.splits * args.tiles_m * args.tiles_n * plan.cluster;
  const std::int64_t sms = context.traits().multiprocessor_count;
  const std::int64_t most = sms / plan.cluster * plan.cluster;
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(std::min(units, most));
  config.block[0] = static_cast<unsigned>(wgmma_threads(plan.tile_m));
  config.shared_bytes = wgmma_shared_bytes(plan, variant.store, desc.dtype_c);
  config.programmatic = plan.predicted_us < kProgrammaticUs;
  void* params[] = {&maps[0], &maps[1], &maps[2], &args, &epilogue};
  submit(k, config, arrays_of(call, &c == &call.c ? nullptr : &c), params);
}

// A copy with rows that TMA can read, each from a line on; broadcast dimensions stay so.
// `along_last`: the last dimension becomes the contiguous one, else the one before it.
Array packed(const Array& x, bool along_last, const char* op) {
  const int rank = x.ndim();
  Dims shape = x.shape();
  for (int d = 0; d < rank - 2; ++d)
    if (x.strides()[d] == 0) shape[d] = 1;
  const int inner = along_last ? rank - 1 : rank - 2;
  const int outer = along_last ? rank - 2 : rank - 1;
  const std::int64_t line = 128 / static_cast<std::int64_t>(itemsize(x.dtype()));
  const std::int64_t pitch = ceil_div(shape[inner], line) * line;
  std::int64_t total = pitch * shape[outer];
  Dims strides = Dims::filled(rank, 0);
  strides[inner] = 1;
  strides[outer] = pitch;
  for (int d = rank - 3; d >= 0; --d) {
    strides[d] = total;
    total *= shape[d];
  }
  const Array room = Array::empty({total}, x.dtype(), x.device(), op);
  const Array copy(shape, strides, x.dtype(), room.buffer(), room.offset_elems());
  const Array once(shape, x.strides(), x.dtype(), x.buffer(), x.offset_elems());
  copy_into(copy, once, op);
  return broadcast_to(copy, x.shape(), op);
}

// Types of 16 bits may be K-major or not: a copy then keeps the layout.
bool packs_k_major(DType dtype, bool mn_major) { return itemsize(dtype) != 2 || !mn_major; }

}  // namespace

void launch_wgmma(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                  const char* op) {
  const std::uint8_t packs = plan.kernel & (kWgmmaPackA | kWgmmaPackB);
  if (packs != 0) {
    // Flags are in the order of wgmma_output(): its A is b where it is C^T.
    const bool pack_a = (packs & (plan.transpose ? kWgmmaPackB : kWgmmaPackA)) != 0;
    const bool pack_b = (packs & (plan.transpose ? kWgmmaPackA : kWgmmaPackB)) != 0;
    GemmCall copies = call;
    if (pack_a) copies.a = packed(call.a, packs_k_major(desc.a.dtype, desc.a_m_major()), op);
    if (pack_b) copies.b = packed(call.b, !packs_k_major(desc.b.dtype, desc.b_n_major()), op);
    MatmulPlan rest = plan;
    rest.kernel = static_cast<std::uint8_t>(plan.kernel & ~packs);
    launch_wgmma(copies, make_desc(copies), rest, op);
    return;
  }
  const bool swap = plan.transpose;
  std::optional<MatmulDesc> t;
  if (swap) t = transposed(desc);
  const MatmulDesc& oriented = t ? *t : desc;
  const Array& a = swap ? call.b : call.a;
  const Array& b = swap ? call.a : call.b;
  if (plan.splits == 1) {
    launch_tiles(call, a, b, call.c, oriented, plan);
    return;
  }
  const Array partial = make_partial(desc, plan.splits, call.c.device(), op);
  launch_tiles(call, a, b, partial, wgmma_output(oriented, plan), plan);
  launch_finish(call, desc, partial, plan.splits, swap);
}

jit::KernelSpec spec_wgmma(const MatmulDesc& desc, const MatmulPlan& plan) {
  const MatmulDesc oriented = plan.transpose ? transposed(desc) : desc;
  Variant v = variant_of(wgmma_output(oriented, plan), plan);
  if ((plan.kernel & kWgmmaPackA) != 0)
    v.a_m_major = !packs_k_major(oriented.a.dtype, oriented.a_m_major());
  if ((plan.kernel & kWgmmaPackB) != 0)
    v.b_n_major = !packs_k_major(oriented.b.dtype, oriented.b_n_major());
  return spec_of(v);
}

// All tiles in all layouts, and all types, stores and epilogues in one tile: all combinations would
// be thousands.
void enumerate_wgmma(std::vector<jit::KernelSpec>& specs) {
  GemmMachine machine;
  MatmulDesc desc;
  const auto all_of = [&](DType a, DType b, DType c, std::int64_t m, std::int64_t n, bool a_m_major,
                          bool b_n_major, WgmmaStoreKind store, unsigned epilogue, bool first) {
    desc.a.dtype = a;
    desc.b.dtype = b;
    desc.dtype_c = c;
    desc.dtype_acc = accumulator(a);
    desc.epilogue = epilogue;
    desc.tf32 = a == DType::kFloat32;
    MatmulProblem& p = desc.problem;
    p.m = m;
    p.n = n;
    p.k = 4096;
    p.a_m = a_m_major ? 1 : p.k;
    p.a_k = a_m_major ? m : 1;
    p.b_n = b_n_major ? 1 : p.k;
    p.b_k = b_n_major ? n : 1;
    p.c_m = store == WgmmaStoreKind::kColumns ? 1 : n;
    p.c_n = store == WgmmaStoreKind::kColumns ? m : 1;
    desc.align_c = store == WgmmaStoreKind::kStrided ? 2 : 16;
    std::vector<MatmulPlan> plans;
    all_wgmma_plans(desc, machine, plans);
    std::erase_if(plans, [](const MatmulPlan& plan) { return plan.transpose; });
    std::sort(plans.begin(), plans.end(), [](const MatmulPlan& x, const MatmulPlan& y) {
      return x.predicted_us < y.predicted_us;
    });
    if (first && !plans.empty()) plans.resize(1);
    for (const MatmulPlan& plan : plans) {
      jit::KernelSpec spec = spec_of(variant_of(wgmma_output(desc, plan), plan));
      const auto same = [&](const jit::KernelSpec& x) { return x.expression == spec.expression; };
      if (std::none_of(specs.begin(), specs.end(), same)) specs.push_back(std::move(spec));
    }
  };
  constexpr DType bf16 = DType::kBFloat16;
  constexpr DType f32 = DType::kFloat32;
  constexpr DType e4m3 = DType::kFloat8E4M3FN;
  constexpr DType e5m2 = DType::kFloat8E5M2;
  using Store = WgmmaStoreKind;
  for (const bool b_n_major : {false, true})
    all_of(bf16, bf16, bf16, 8192, 8192, false, b_n_major, Store::kRows, 0, false);
  all_of(bf16, bf16, bf16, 512, 512, false, false, Store::kRows, 0, false);  // split-K
  all_of(bf16, bf16, bf16, 8192, 8192, true, false, Store::kRows, 0, true);
  all_of(bf16, bf16, bf16, 8192, 8192, true, true, Store::kRows, 0, true);
  all_of(bf16, bf16, bf16, 512, 16, false, false, Store::kColumns, 0, false);
  all_of(bf16, bf16, bf16, 512, 64, false, false, Store::kColumns, 0, false);
  all_of(DType::kFloat16, DType::kFloat16, DType::kFloat16, 8192, 8192, false, true, Store::kRows,
         0, true);
  all_of(bf16, bf16, f32, 8192, 8192, false, true, Store::kRows, 0, true);
  all_of(f32, f32, f32, 8192, 8192, false, false, Store::kRows, 0, true);
  all_of(DType::kInt8, DType::kInt8, DType::kInt32, 8192, 8192, false, false, Store::kRows, 0,
         true);
  desc.fast_accum = true;
  all_of(e4m3, e4m3, bf16, 8192, 8192, false, false, Store::kRows, kEpilogueScales, true);
  desc.fast_accum = false;
  for (const auto& [a, b] : {std::pair{e4m3, e4m3}, {e4m3, e5m2}, {e5m2, e4m3}, {e5m2, e5m2}})
    all_of(a, b, bf16, 8192, 8192, false, false, Store::kRows, kEpilogueScales, true);
  all_of(bf16, bf16, bf16, 8192, 8192, false, true, Store::kStrided, 0, true);
  for (unsigned activation = 0; activation <= kernels::kActivationGeluErf; ++activation)
    for (const unsigned flags : {0U, kEpilogueBias, kEpilogueBias | kEpilogueResidual})
      if ((flags | activation) != 0)
        all_of(bf16, bf16, bf16, 8192, 8192, false, false, Store::kRows,
               flags | activation << kEpilogueActivationShift, true);
}

}  // namespace gpk::ops::gemm
