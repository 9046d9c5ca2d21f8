#include "ops/transformer/decode_layers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/launch.h"
#include "core/tensor_map.h"
#include "device/host_copy.h"
#include "kernels/args/attention.h"
#include "kernels/args/kv_cache.h"
#include "kernels/args/transformer.h"
#include "ops/device_address.h"
#include "ops/elementwise/fill.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "plan/key_builder.h"
#include "plan/machine.h"

namespace gpk::ops {
namespace {

constexpr const char* kOp = "decode_layers";
constexpr double kLog2E = 1.4426950408889634;
constexpr int kSplitLog2 = 8;
constexpr int kMaxStages = 16;
constexpr std::size_t kStaticBytes = 2048;

std::uint64_t key_of(DType dtype, std::int64_t dim) {
  return plan::KeyBuilder()
      .field("dtype", dtype, plan::kDTypeBits)
      .field("dim / 64", dim / 64, 3)
      .key();
}

jit::KernelSpec spec_of(DType dtype, std::int64_t dim) {
  jit::KernelSpec spec;
  spec.op = kOp;
  spec.kernel = 0;
  spec.variant = key_of(dtype, dim);
  spec.file = "transformer/decode_layers.cuh";
  spec.exact_sms = {90, 100};
  spec.bundled = false;
  spec.expression = cat("gpk::decode_layers_kernel<", info(dtype).cuda_name, ", ", dim, ">");
  return spec;
}

cu::TensorMap map_of(const Array& weight) {
  TensorMapSpec spec;
  spec.address = weight.device_ptr();
  spec.type = weight.dtype() == DType::kFloat16 ? cu::kTensorFloat16 : cu::kTensorBFloat16;
  const auto n = static_cast<std::uint64_t>(weight.shape()[0]);
  const auto k = static_cast<std::uint64_t>(weight.shape()[1]);
  spec.sizes[0] = kernels::kBlockK;
  spec.sizes[1] = n;
  spec.sizes[2] = k / kernels::kBlockK;
  spec.pitches[0] = k;
  spec.pitches[1] = kernels::kBlockK;
  spec.box[0] = kernels::kBlockK;
  spec.box[1] = kernels::kTileRows;
  spec.box[2] = kernels::kChunkLines;
  return encode_tensor_map(spec);
}

Array uploaded(const void* data, std::size_t bytes, Device device) {
  return device::from_host(data, {static_cast<std::int64_t>(bytes)}, DType::kUInt8, device);
}

// Shared memory of attention (rings of the warps, the results they merge, queries), or of all rows
// of the residual stream.
std::size_t x_bytes_of(const DecoderWeights& w) {
  const auto dim = static_cast<std::size_t>(w.head_dim);
  const auto group = static_cast<std::size_t>(w.num_heads / w.num_kv_heads);
  const std::size_t attention =
      kernels::kConsumerWarps * (16 * 2 * (2 * dim + 16) + group * (dim + 4) * 4) +
      16 * (2 * dim + 16);
  const auto hidden = static_cast<std::size_t>(w.head.shape()[1]);
  const std::size_t rows = kMaxDecodeLayersRows * ceil_div(hidden, std::size_t{512}) * 1024;
  return ceil_div(std::max(attention, rows), std::size_t{1024}) * 1024;
}

int int_of(std::int64_t x) { return static_cast<int>(x); }

}  // namespace

struct DecodeLayers::State {
  DecoderWeights weights;
  plan::Machine machine;
  Array maps, table;        // on the device
  Array qkv, heads, inner;  // activations
  Array parts, counters, barrier;
  std::size_t x_bytes;
  int num_stages;
  std::vector<const Array*> used;  // one array of each buffer that is not an argument

  explicit State(DecoderWeights of)
      : weights(std::move(of)),
        machine(plan::machine_of(Context::get(device().index))),
        maps(make_maps()),
        table(make_table()),
        qkv(empty({kMaxDecodeLayersRows,
                   (weights.num_heads + 2 * weights.num_kv_heads) * weights.head_dim})),
        heads(empty({kMaxDecodeLayersRows, weights.num_heads * weights.head_dim})),
        inner(empty({kMaxDecodeLayersRows, weights.inner_size})),
        parts(empty({kMaxDecodeLayersRows * weights.num_kv_heads * max_splits() * 16 *
                     (weights.head_dim + 4)},
                    DType::kFloat32)),
        counters(zeros(kMaxDecodeLayersRows * weights.num_kv_heads)),
        barrier(zeros(1)),
        x_bytes(x_bytes_of(weights)),
        num_stages(std::min(kMaxStages, static_cast<int>((machine.shared_bytes - kStaticBytes -
                                                          kernels::kReduceBytes - x_bytes) /
                                                         kernels::kStageBytes))) {
    for (const DecoderLayer& layer : weights.layers) {
      for (const Array* a : {&layer.attention_norm, &layer.qkv, &layer.out, &layer.mlp_norm,
                             &layer.gate_up, &layer.down, &layer.k_cache, &layer.v_cache})
        use(*a);
      for (const auto* a : {&layer.qkv_bias, &layer.q_norm, &layer.k_norm})
        if (*a) use(**a);
    }
    for (const Array* a : {&weights.final_norm, &weights.head, &weights.cos, &weights.sin, &maps,
                           &table, &qkv, &heads, &inner, &parts, &counters, &barrier})
      use(*a);
  }

  [[nodiscard]] Device device() const { return weights.head.device(); }
  [[nodiscard]] std::int64_t max_splits() const {
    return ceil_div(weights.max_length, std::int64_t{1} << kSplitLog2);
  }

 private:
  [[nodiscard]] Array empty(Dims shape) const {
    return empty(std::move(shape), weights.head.dtype());
  }
  [[nodiscard]] Array empty(Dims shape, DType dtype) const {
    return Array::empty(std::move(shape), dtype, device(), kOp);
  }
  [[nodiscard]] Array zeros(std::int64_t count) const {
    const Array array = empty({count}, DType::kInt32);
    fill(array, Scalar(std::int64_t{0}), kOp);
    return array;
  }
  [[nodiscard]] Array make_maps() const {
    std::vector<cu::TensorMap> all;
    for (const DecoderLayer& layer : weights.layers)
      for (const Array* w : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down})
        all.push_back(map_of(*w));
    all.push_back(map_of(weights.head));
    return uploaded(all.data(), all.size() * sizeof(all[0]), device());
  }
  [[nodiscard]] Array make_table() const {
    std::vector<kernels::DecodeLayer> all;
    for (const DecoderLayer& layer : weights.layers)
      all.push_back({address(layer.attention_norm), address(layer.mlp_norm),
                     address(layer.qkv_bias), address(layer.q_norm), address(layer.k_norm),
                     address(layer.k_cache), address(layer.v_cache)});
    return uploaded(all.data(), all.size() * sizeof(all[0]), device());
  }
  void use(const Array& array) {
    for (const Array* known : used)
      if (known->buffer() == array.buffer()) return;
    used.push_back(&array);
  }
};

bool can_decode_layers(const DecoderWeights& w) {
  const Device device = w.head.device();
  if (!device.is_cuda() || !has_tensor_maps()) return false;
  const plan::Machine machine = plan::machine_of(Context::get(device.index));
  const DType dtype = w.head.dtype();
  const std::int64_t hidden = w.head.shape()[1];
  const std::int64_t half = w.cos.shape()[1];
  const auto whole = [](std::int64_t x) { return x % kernels::kBlockK == 0; };
  return machine.sm >= 90 && machine.shared_bytes >= (std::size_t{200} << 10) && machine.jit &&
         (dtype == DType::kFloat16 || dtype == DType::kBFloat16) &&
         (w.head_dim == 64 || w.head_dim == 128) && w.num_heads % w.num_kv_heads == 0 &&
         w.num_heads / w.num_kv_heads <= 8 && whole(hidden) && hidden <= kernels::kMaxHidden &&
         whole(w.inner_size) && half % 8 == 0 && (w.head_dim / 2 - half) % 8 == 0;
}

DecodeLayers::DecodeLayers(DecoderWeights weights)
    : state_(std::make_unique<State>(std::move(weights))) {}

DecodeLayers::~DecodeLayers() = default;

void DecodeLayers::run(const Array& hidden, const Array& positions, const Array& slots,
                       const Array& lengths, const Array& tables, std::int64_t num_layers,
                       const Array& logits) {
  const State& s = *state_;
  const DecoderWeights& w = s.weights;
  const std::int64_t rows = hidden.shape()[0];
  const std::int64_t q_size = s.heads.shape()[1];
  const std::int64_t qkv_size = s.qkv.shape()[1];
  const std::int64_t kv_size = w.num_kv_heads * w.head_dim;
  const Array& cache = w.layers.front().k_cache;
  const auto bytes = static_cast<std::ptrdiff_t>(itemsize(hidden.dtype()));

  kernels::DecodeLayersArgs args{};
  args.maps = address(s.maps);
  args.layers = address(s.table);
  args.final_norm = address(w.final_norm);
  args.hidden = address(hidden);
  args.qkv = address(s.qkv);
  args.heads = address(s.heads);
  args.inner = address(s.inner);
  args.logits = address(logits);
  args.barrier = address(s.barrier);

  kernels::KvWriteArgs kv{};
  kv.q = {address(s.qkv), qkv_size, w.head_dim};
  kv.k = {address(s.qkv) + q_size * bytes, qkv_size, w.head_dim};
  kv.v = {address(s.qkv) + (q_size + kv_size) * bytes, qkv_size, w.head_dim};
  kv.q_out = address(s.qkv);
  kv.q_out_token = qkv_size;
  kv.q_out_head = w.head_dim;
  for (kernels::CacheSlots* to : {&kv.k_cache, &kv.v_cache})
    *to = {nullptr, nullptr, cache.strides()[0], cache.strides()[1], cache.strides()[2], 1.0f, 0};
  kv.slots = address(slots);
  kv.positions = address(positions);
  kv.cos = address(w.cos);
  kv.sin = address(w.sin);
  kv.num_rows = rows * (w.num_heads + 2 * w.num_kv_heads);
  kv.num_slots = cache.shape()[0] * cache.shape()[1];
  kv.table_rows = w.cos.shape()[0];
  kv.cos_row = w.cos.strides()[0];
  kv.sin_row = w.sin.strides()[0];
  kv.eps = static_cast<float>(w.norm_eps);
  kv.offset = static_cast<float>(w.norm_offset);
  kv.q_heads = int_of(w.num_heads);
  kv.kv_heads = int_of(w.num_kv_heads);
  kv.dim = int_of(w.head_dim);
  kv.half = int_of(w.cos.shape()[1]);
  kv.page = int_of(cache.shape()[1]);
  kv.group = int_of(w.head_dim / 16);
  kv.wide = kernels::kWideTables;

  kernels::AttentionArgs attention{};
  attention.q = address(s.qkv);
  attention.out = address(s.heads);
  attention.lengths = address(lengths);
  attention.blocks = address(tables);
  attention.parts = address(s.parts);
  attention.counters = address(s.counters);
  attention.q_at = {qkv_size, 0, w.head_dim};
  attention.k_at = attention.v_at = {cache.strides()[0], cache.strides()[1], cache.strides()[2]};
  attention.out_at = {q_size, 0, w.head_dim};
  attention.batch = int_of(rows);
  attention.heads = int_of(w.num_heads);
  attention.group = int_of(w.num_heads / w.num_kv_heads);
  attention.q_len = 1;
  attention.kv_len = int_of(w.max_length);
  attention.dim = attention.value_dim = int_of(w.head_dim);
  attention.left = kernels::kUnbounded;
  attention.blocks_row = int_of(tables.shape()[1]);
  attention.page_log2 = std::countr_zero(static_cast<std::uint64_t>(cache.shape()[1]));
  attention.split_log2 = kSplitLog2;
  attention.row_tiles = 1;
  attention.scale = static_cast<float>(w.scale * kLog2E);
  attention.v_scale = 1.0f;

  args.rows = int_of(rows);
  args.num_layers = int_of(num_layers);
  args.hidden_size = int_of(w.head.shape()[1]);
  args.q_size = int_of(q_size);
  args.qkv_size = int_of(qkv_size);
  args.inner_size = int_of(w.inner_size);
  args.vocab_size = int_of(w.head.shape()[0]);
  args.max_splits = int_of(s.max_splits());
  args.head_map = int_of(static_cast<std::int64_t>(w.layers.size()) * kernels::kLayerMaps);
  args.num_stages = s.num_stages;
  args.row_stride =
      int_of(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows))));
  args.x_lines = int_of(static_cast<std::int64_t>(s.x_bytes)) / (128 * args.row_stride) /
                 kernels::kChunkLines * kernels::kChunkLines;
  args.eps = static_cast<float>(w.norm_eps);
  args.offset = static_cast<float>(w.norm_offset);

  Context& context = Context::get(hidden.device().index);
  const Kernel& code = kernel(context, {Family::transformer, 0, key_of(hidden.dtype(), w.head_dim)},
                              [&] { return spec_of(hidden.dtype(), w.head_dim); });
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(s.machine.sms);
  config.block[0] = kernels::kDecodeThreads;
  config.shared_bytes = static_cast<std::size_t>(s.num_stages) * kernels::kStageBytes +
                        kernels::kReduceBytes + s.x_bytes;
  config.cooperative = true;
  std::vector<const Array*> arrays{&hidden, &positions, &slots, &lengths, &tables, &logits};
  arrays.insert(arrays.end(), s.used.begin(), s.used.end());
  void* params[] = {&args, &kv, &attention};
  submit(code, config, arrays, params);
}

void enumerate_transformer(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16})
    for (const std::int64_t dim : {64, 128}) specs.push_back(spec_of(dtype, dim));
}

}  // namespace gpk::ops
