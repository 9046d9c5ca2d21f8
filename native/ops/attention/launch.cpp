#include "ops/attention/launch.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <utility>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "ops/chain/recorder.h"
#include "ops/counters.h"
#include "ops/device_address.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "plan/key_builder.h"
#include "plan/tensor_maps.h"

namespace gpk::ops::attention {
namespace {

constexpr double kLog2E = 1.4426950408889634;

struct Variant {
  DType dtype, kv_dtype;
  AttentionPlan plan;
  bool softcap;  // prefill and decode; the others decide at run time
};

std::uint64_t key_of(const Variant& v) {
  return plan::KeyBuilder()
      .field("dtype", v.dtype, plan::kDTypeBits)
      .field("kv_dtype", v.kv_dtype, plan::kDTypeBits)
      .field("dim / 32", v.plan.dim / 32, 4)
      .field("tile_n / 16", v.plan.tile_n / 16, 4)
      .field("consumers", v.plan.consumers, 2)
      .field("stages", v.plan.stages, 3)
      .field("softcap", v.softcap, 1)
      .key();
}

const char* cuda_name(DType dtype) {
  return dtype == DType::kFloat8E4M3FN ? "gpk::float8_e4m3fn" : info(dtype).cuda_name;
}

// Without NVRTC these are what plan_attention() chooses.
bool is_bundled(const Variant& v) {
  switch (v.plan.engine) {
    case Engine::kPrefill: return false;
    case Engine::kDecode:
      return v.kv_dtype == v.dtype && !v.softcap && (v.plan.dim == 64 || v.plan.dim == 128);
    case Engine::kTile: return v.plan.dim == 64 || v.plan.dim == 128;
    case Engine::kSimt: return v.plan.dim == 256;
  }
  return false;
}

jit::KernelSpec spec_of(const Variant& v) {
  jit::KernelSpec spec;
  spec.op = "attention";
  spec.kernel = static_cast<std::uint8_t>(v.plan.engine);
  spec.variant = key_of(v);
  spec.bundled = is_bundled(v);
  const char* type = cuda_name(v.dtype);
  const AttentionPlan& p = v.plan;
  const char* softcap = v.softcap ? "true" : "false";
  switch (p.engine) {
    case Engine::kPrefill:
      spec.file = "attention/prefill_wgmma.cuh";
      spec.exact_sms = {90};
      spec.expression = cat("gpk::prefill_wgmma_kernel<", type, ", ", p.dim, ", ", p.tile_n, ", ",
                            p.consumers, ", ", p.stages, ", ", softcap, ">");
      break;
    case Engine::kDecode:
      spec.file = "attention/decode_mma.cuh";
      if (v.kv_dtype != v.dtype) spec.exact_sms = {89, 90, 100, 120};  // converts FP8
      spec.expression = cat("gpk::decode_mma_kernel<", type, ", ", cuda_name(v.kv_dtype), ", ",
                            p.dim, ", ", p.dim, ", 4, ", p.stages, ", ", softcap, ">");
      break;
    case Engine::kTile:
      spec.file = "attention/tile_mma.cuh";
      spec.expression = cat("gpk::attention_tile_kernel<", type, ", ", p.dim, ", ", p.tile_n, ">");
      break;
    case Engine::kSimt:
      spec.file = "attention/simt.cuh";
      spec.expression =
          cat("gpk::attention_simt_kernel<", type, ", ", cuda_name(v.kv_dtype), ", ", p.dim, ">");
      break;
  }
  return spec;
}

bool has_softcap_variants(Engine engine) {
  return engine == Engine::kPrefill || engine == Engine::kDecode;
}

// [batch, rows, heads, dim] by strides.
kernels::AttentionStrides strides_of(const Array& array) {
  return {array.strides()[0], array.strides()[1], array.strides()[2]};
}

// [batch, heads, q_len, kv_len] by strides.
kernels::AttentionStrides mask_strides(const Array& array) {
  return {array.strides()[0], array.strides()[2], array.strides()[1]};
}

cu::TensorMap map_of(const Array& x, int rows) {
  TensorMapSpec spec;
  spec.address = x.device_ptr();
  spec.type = x.dtype() == DType::kFloat16 ? cu::kTensorFloat16 : cu::kTensorBFloat16;
  spec.element_bytes = 2;
  spec.rank = 4;
  constexpr int kOrder[] = {3, 1, 2, 0};  // dim, rows, heads, batch
  for (int i = 0; i < 4; ++i) {
    spec.sizes[i] = static_cast<std::uint64_t>(x.shape()[kOrder[i]]);
    // A dimension of one element may have any stride.
    if (i > 0)
      spec.pitches[i - 1] =
          static_cast<std::uint64_t>(spec.sizes[i] == 1 ? 8 : x.strides()[kOrder[i]]);
  }
  spec.box[0] = 64;
  spec.box[1] = static_cast<std::uint32_t>(rows);
  return plan::tensor_map(spec);
}

// What the kernel touches.
class Arrays {
 public:
  explicit Arrays(const AttentionCall& call) {
    for (const Array* array : {&call.q, &call.k, &call.v, &call.out}) add(*array);
    for (const auto* array : {&call.mask, &call.bias, &call.sinks, &call.lengths, &call.q_starts,
                              &call.k_starts, &call.blocks})
      if (*array) add(**array);
  }
  void add(const Array& array) { arrays_[count_++] = &array; }
  [[nodiscard]] std::span<const Array* const> all() const { return {arrays_, count_}; }

 private:
  const Array* arrays_[13] = {};
  std::size_t count_ = 0;
};

void launch_prefill(const AttentionCall& call, const AttentionPlan& plan, const Kernel& code,
                    LaunchConfig config, kernels::AttentionArgs args) {
  const Context& context = Context::get(call.q.device().index);
  const plan::Machine machine = plan::machine_of(context);
  const int rows = 64 * plan.consumers;
  args.page_rows = call.blocks ? std::gcd(plan.tile_n, 1 << args.page_log2) : plan.tile_n;
  cu::TensorMap maps[3] = {map_of(call.q, rows), map_of(call.k, args.page_rows),
                           map_of(call.v, args.page_rows)};
  args.section = static_cast<int>(prefill_section(call.desc, machine));
  const std::int64_t units =
      call.desc.batch * call.desc.heads * ceil_div(call.desc.q_len, std::int64_t{rows});
  config.grid[0] = static_cast<unsigned>(std::min<std::int64_t>(units, machine.sms));
  config.block[0] = static_cast<unsigned>(128 * (plan.consumers + 1));
  void* params[] = {&maps[0], &maps[1], &maps[2], &args};
  submit(code, config, Arrays(call).all(), params);
}

// How decode cuts the keys of all sequences.
struct DecodeGrid {
  std::int64_t row_tiles;
  std::int64_t blocks;     // groups of splits
  std::int64_t tiles;      // of all sequences
  std::int64_t num_parts;  // floats; 0: there is one split

  DecodeGrid(const AttentionDesc& d, const AttentionPlan& plan)
      : row_tiles(decode_row_tiles(d)),
        blocks(ceil_div(d.kv_len, std::int64_t{1} << (plan.split_log2 + plan.splits_log2))),
        tiles(d.batch * d.kv_heads * row_tiles),
        num_parts(d.kv_len <= std::int64_t{1} << plan.split_log2
                      ? 0
                      : tiles * (blocks << plan.splits_log2) * 16 * (plan.dim + 4)) {}

  void fill(kernels::AttentionArgs& args, const AttentionPlan& plan) const {
    args.split_log2 = plan.split_log2;
    args.splits_log2 = plan.splits_log2;
    args.row_tiles = static_cast<int>(row_tiles);
  }
};

void record_decode(chain::Recorder& recorder, const AttentionCall& call, const Variant& variant) {
  const AttentionPlan& plan = variant.plan;
  if (plan.engine != Engine::kDecode) chain::Recorder::refuse("attention: no decode kernel");
  const DecodeGrid grid(call.desc, plan);
  kernels::AttentionArgs args = args_of(call);
  grid.fill(args, plan);
  const Arrays arrays(call);
  const Array* const written[] = {&call.out};
  recorder.add_attention(args,
                         {{variant.dtype, variant.kv_dtype, plan.dim},
                          grid.blocks,
                          call.desc.kv_heads * grid.row_tiles,
                          grid.num_parts,
                          shared_bytes(call.desc, plan)},
                         {arrays.all(), written});
}

void launch_decode(const AttentionCall& call, const AttentionPlan& plan, const Kernel& code,
                   LaunchConfig config, kernels::AttentionArgs args) {
  const AttentionDesc& d = call.desc;
  const DecodeGrid grid(d, plan);
  grid.fill(args, plan);
  config.grid[0] = static_cast<unsigned>(grid.blocks);
  config.grid[1] = static_cast<unsigned>(d.kv_heads * grid.row_tiles);
  config.grid[2] = static_cast<unsigned>(d.batch);
  config.block[0] = 128;
  config = dependent(config, Context::get(call.q.device().index).traits());
  void* params[] = {&args};
  Arrays arrays(call);
  if (grid.num_parts == 0) {
    submit(code, config, arrays.all(), params);
    return;
  }
  const Array counters = zeroed_counters(call.q.device(), grid.tiles);
  const Array parts = Array::empty({grid.num_parts}, DType::kFloat32, call.q.device(), "attention");
  args.counters = address(counters);
  args.parts = address(parts);
  arrays.add(counters);
  arrays.add(parts);
  submit(code, config, arrays.all(), params);
}

}  // namespace

kernels::AttentionArgs args_of(const AttentionCall& call) {
  const AttentionDesc& d = call.desc;
  const auto narrow = [](std::int64_t x) { return static_cast<int>(x); };
  kernels::AttentionArgs args{};
  args.q = address(call.q);
  args.k = address(call.k);
  args.v = address(call.v);
  args.out = address(call.out);
  args.lengths = address(call.lengths);
  args.q_starts = address(call.q_starts);
  args.k_starts = address(call.k_starts);
  args.blocks = address(call.blocks);
  args.sinks = address(call.sinks);
  args.q_at = strides_of(call.q);
  args.k_at = strides_of(call.k);
  args.v_at = strides_of(call.v);
  args.out_at = strides_of(call.out);
  if (call.mask) {
    args.mask = address(*call.mask);
    args.mask_at = mask_strides(*call.mask);
    args.mask_step = call.mask->strides()[3];
  }
  if (call.bias) {
    args.bias = address(*call.bias);
    args.bias_at = mask_strides(*call.bias);
    args.bias_step = call.bias->strides()[3];
  }
  args.batch = narrow(d.batch);
  args.heads = narrow(d.heads);
  args.group = narrow(d.heads / d.kv_heads);
  args.q_len = narrow(d.q_len);
  args.kv_len = narrow(d.kv_len);
  args.dim = narrow(d.dim);
  args.value_dim = narrow(d.value_dim);
  args.left = narrow(std::min<std::int64_t>(call.left, kernels::kUnbounded));
  args.right = narrow(std::min<std::int64_t>(call.right, kernels::kUnbounded));
  if (call.blocks) {
    args.blocks_row = narrow(call.blocks->shape()[1]);
    args.page_log2 = std::countr_zero(static_cast<std::uint64_t>(call.k.shape()[1]));
  }
  args.scale = static_cast<float>(call.scale * kLog2E);
  args.softcap = static_cast<float>(call.softcap);
  args.v_scale = static_cast<float>(call.v_scale);
  return args;
}

void launch_attention(const AttentionCall& call, const AttentionPlan& plan) {
  const AttentionDesc& d = call.desc;
  const Variant variant{d.dtype, d.kv_dtype, plan, d.softcap && has_softcap_variants(plan.engine)};
  if (chain::Recorder* const recorder = chain::Recorder::current()) {
    record_decode(*recorder, call, variant);
    return;
  }
  const Kernel& code =
      kernel(Context::get(call.q.device().index),
             {Family::attention, static_cast<std::uint8_t>(plan.engine), key_of(variant)},
             [&] { return spec_of(variant); });
  LaunchConfig config;
  config.shared_bytes = shared_bytes(d, plan);
  kernels::AttentionArgs args = args_of(call);
  if (plan.engine == Engine::kPrefill) {
    launch_prefill(call, plan, code, config, args);
    return;
  }
  if (plan.engine == Engine::kDecode) {
    launch_decode(call, plan, code, config, args);
    return;
  }
  const std::int64_t rows = plan.engine == Engine::kTile ? 64 : 16;
  config.grid[0] = static_cast<unsigned>(ceil_div(d.q_len, rows));
  config.grid[1] = static_cast<unsigned>(d.heads);
  config.grid[2] = static_cast<unsigned>(d.batch);
  config.block[0] = 128;
  void* params[] = {&args};
  submit(code, config, Arrays(call).all(), params);
}

}  // namespace gpk::ops::attention

namespace gpk::ops {

using namespace attention;

void enumerate_attention(std::vector<jit::KernelSpec>& specs) {
  constexpr DType kHalves[] = {DType::kFloat16, DType::kBFloat16};
  constexpr DType e4m3 = DType::kFloat8E4M3FN;
  for (const DType dtype : kHalves) {
    for (const bool softcap : {false, true}) {
      for (const AttentionPlan& plan : {AttentionPlan{Engine::kPrefill, 64, 128, 3, 2},
                                        AttentionPlan{Engine::kPrefill, 64, 128, 2, 3},
                                        AttentionPlan{Engine::kPrefill, 128, 128, 2, 2},
                                        AttentionPlan{Engine::kPrefill, 256, 48, 2, 2}})
        if (!softcap || (plan.consumers == 2 && plan.dim < 256))
          specs.push_back(spec_of({dtype, dtype, plan, softcap}));
      for (const int dim : {32, 64, 96, 128, 160, 192, 224, 256})
        for (const DType kv : {dtype, e4m3})
          if (kv == dtype || dim < 256)
            specs.push_back(
                spec_of({dtype, kv, AttentionPlan{Engine::kDecode, dim, 16, 2, 2}, softcap}));
    }
    for (const int dim : {32, 64, 96, 128, 192, 256})
      specs.push_back(
          spec_of({dtype, dtype, AttentionPlan{Engine::kTile, dim, dim > 128 ? 32 : 64}, false}));
  }
  enumerate_widening(specs);
  for (const int dim : {64, 128, 256})
    for (const auto& [dtype, kv] : {std::pair{DType::kFloat32, DType::kFloat32},
                                    {DType::kFloat16, DType::kFloat16},
                                    {DType::kBFloat16, DType::kBFloat16},
                                    {DType::kFloat32, e4m3},
                                    {DType::kFloat16, e4m3},
                                    {DType::kBFloat16, e4m3}})
      specs.push_back(spec_of({dtype, kv, AttentionPlan{Engine::kSimt, dim, 32}, false}));
}

}  // namespace gpk::ops
