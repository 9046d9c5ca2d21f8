#include "llm/forward.h"

#include <algorithm>
#include <bit>

#include "core/view.h"
#include "ops/attention/attention.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/indexing/take.h"
#include "ops/kv_cache/write.h"
#include "ops/manipulation/axes.h"
#include "ops/matmul/grouped.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/packed_groups.h"
#include "ops/moe/permute.h"
#include "ops/moe/route.h"
#include "ops/moe/unpermute.h"
#include "ops/nn/norm.h"

namespace gpk::llm {
namespace {

struct Pass {
  const PassInput& input;
  PassState& state;
  const Step& step;

  [[nodiscard]] const ModelConfig& config() const { return state.model.config(); }
  [[nodiscard]] const Array& slot(Slot which) const {
    return *state.slots[static_cast<std::size_t>(which)];
  }
  [[nodiscard]] const Array& in() const { return slot(step.in); }
  [[nodiscard]] const Array& out() const { return slot(step.out); }
  [[nodiscard]] const Array& weight(Role role) const {
    return *state.model.weight(role, step.layer);
  }
  [[nodiscard]] std::optional<Array> maybe(Role role) const {
    return role == Role::kNone ? std::nullopt : state.model.weight(role, step.layer);
  }
  [[nodiscard]] bool has_window() const {
    return config().has_window[static_cast<std::size_t>(step.layer)];
  }

  // Columns [first, first + heads * dim) of rows as [tokens, heads, dim].
  [[nodiscard]] Array heads_of(const Array& rows, std::int64_t first, std::int64_t heads) const {
    const std::int64_t dim = config().head_dim;
    return {{rows.shape()[0], heads, dim},
            {rows.strides()[0], dim, 1},
            rows.dtype(),
            rows.buffer(),
            rows.offset_elems() + first};
  }

  void embed() const {
    ops::take(weight(step.weight), *input.tokens, 0, ops::IndexMode::kClip, out());
    if (config().embedding_scale != 1.0)
      ops::multiply(out(), Scalar(rounded(config().embedding_scale)), &out());
  }
  // To the model's type first, as Transformers does.
  [[nodiscard]] double rounded(double x) const {
    const DType dtype = state.model.dtype();
    if (dtype == DType::kFloat16) return from_float16(to_float16(x));
    if (dtype != DType::kBFloat16) return x;
    const auto bits = static_cast<std::uint32_t>(to_bfloat16(static_cast<float>(x))) << 16;
    return std::bit_cast<float>(bits);
  }

  void add_positions() const {
    const Array rows =
        ops::take(weight(step.weight), *input.positions, 0, ops::IndexMode::kClip, std::nullopt);
    ops::add(in(), rows, &out());
  }

  void norm() const {
    const ModelSpec& spec = state.model.spec();
    const ops::NormOptions options{weight(step.weight), maybe(step.bias), config().norm_eps,
                                   spec.norm_offset};
    if (spec.norm == NormKind::kRms)
      ops::rmsnorm(in(), options, out());
    else
      ops::layernorm(in(), options, out());
  }

  void linear() const {
    ops::LinearOptions options;
    options.bias = maybe(step.bias);
    if (step.residual != Slot::kNone) options.residual = slot(step.residual);
    const bool erf =
        config().exact_gelu || state.model.spec().activation == MlpActivation::kGeluErf;
    if (step.gelu) options.activation = erf ? ops::Activation::kGeluErf : ops::Activation::kGelu;
    options.swiglu = step.kind == StepKind::kSwiglu;
    if (step.norm != Role::kNone)
      options.norm = {weight(step.norm), config().norm_eps, state.model.spec().norm_offset,
                      maybe(step.norm_bias), state.model.spec().norm == NormKind::kLayer};
    options.out = out();
    if (const auto& packed = state.model.packed(step.weight, step.layer))
      run_linear(in(), *packed, options);
    else
      run_linear(in(), weight(step.weight), options);
  }

  // Batches of more rows than decoding kernels take are cut.
  template <class Weight>
  void run_linear(const Array& x, const Weight& w, ops::LinearOptions& options) const {
    options.batch_invariant = true;
    options.few_rows = input.decodes;
    const std::int64_t rows = x.shape()[0];
    if (!input.decodes || rows <= ops::kMaxFewRows) {
      ops::linear(x, w, options);
      return;
    }
    const Array result = *options.out;
    const std::optional<Array> residual = options.residual;
    for (std::int64_t first = 0; first < rows; first += ops::kMaxFewRows) {
      const std::int64_t count = std::min(ops::kMaxFewRows, rows - first);
      options.out = slice_axis(result, 0, first, count, 1);
      if (residual) options.residual = slice_axis(*residual, 0, first, count, 1);
      ops::linear(slice_axis(x, 0, first, count, 1), w, options);
    }
  }

  void geglu() const {
    const std::int64_t inner = config().intermediate_size;
    const Array gate = slice_axis(in(), 1, 0, inner, 1);
    const Array up = slice_axis(in(), 1, inner, inner, 1);
    ops::gelu_multiply(gate, up, &out());
  }

  void write_kv() const {
    const ModelConfig& c = config();
    ops::KvWriteOptions options;
    options.q = heads_of(in(), 0, c.num_heads);
    options.q_weight = state.model.weight(Role::kQNorm, step.layer);
    options.k_weight = state.model.weight(Role::kKNorm, step.layer);
    options.eps = c.norm_eps;
    options.offset = state.model.spec().norm_offset;
    const RopeTable* rope = has_window() ? state.local_rope : state.rope;
    if (rope != nullptr) {
      options.cos = rope->cos;
      options.sin = rope->sin;
      options.positions = input.rope_rows ? input.rope_rows : input.positions;
    }
    ops::kv_cache_write(heads_of(in(), c.q_size(), c.num_kv_heads),
                        heads_of(in(), c.q_size() + c.kv_size(), c.num_kv_heads),
                        {state.cache->k(step.layer), {}}, {state.cache->v(step.layer), {}},
                        *input.slots, options, heads_of(out(), 0, c.num_heads));
  }

  void attention() const {
    const ModelConfig& c = config();
    ops::AttentionOptions options;
    options.causal = true;
    options.window = has_window() ? c.window : 0;
    options.softcap = c.attention_softcap;
    options.scale = c.attention_scale;
    options.lengths = input.lengths;
    options.block_table = input.tables;
    attend(*state.cache, options);
  }

  void cross_attention() const {
    if (state.on_cross_query)
      state.on_cross_query(step.layer, heads_of(in(), 0, config().num_heads));
    ops::AttentionOptions options;
    options.lengths = input.cross_lengths;
    options.block_table = input.cross_tables;
    attend(state.cross->pages(), options);
  }

  // The queries of each sequence to the keys that its table names.
  void attend(const KvPages& cache, ops::AttentionOptions& options) const {
    Array q = heads_of(in(), 0, config().num_heads);
    Array result = heads_of(out(), 0, config().num_heads);
    if (input.decodes) {
      q = expand_dims(q, {1}, "attention");
      result = expand_dims(result, {1}, "attention");
    } else {
      options.cu_seqlens_q = input.starts;
      options.max_seqlen_q = input.longest;
    }
    ops::run_attention(q, cache.k(step.layer), cache.v(step.layer), options, result);
  }

  // All sequences have as many rows.
  void self_attention() const {
    const ModelConfig& c = config();
    const auto by_sequence = [&](const Array& heads) {
      return *try_reshape(heads,
                          {input.num_sequences, input.longest, heads.shape()[1], c.head_dim});
    };
    ops::run_attention(by_sequence(heads_of(in(), 0, c.num_heads)),
                       by_sequence(heads_of(in(), c.q_size(), c.num_kv_heads)),
                       by_sequence(heads_of(in(), c.q_size() + c.kv_size(), c.num_kv_heads)), {},
                       by_sequence(heads_of(out(), 0, c.num_heads)));
  }

  void write_cross() const {
    const ModelConfig& c = config();
    ops::kv_cache_write(heads_of(in(), 0, c.num_kv_heads),
                        heads_of(in(), c.kv_size(), c.num_kv_heads),
                        {state.cross->pages().k(step.layer), {}},
                        {state.cross->pages().v(step.layer), {}}, *input.slots, {}, std::nullopt);
  }

  // [sequences, channels, frames] to rows of channels.
  void convolve() const {
    ops::ConvOptions options;
    options.padding = {1};
    options.activation = ops::conv::Activation::kGeluErf;
    options.bias = weight(Role::kConv1Bias);
    const Array first = ops::conv1d(*input.features, weight(Role::kConv1), options, std::nullopt);
    options.stride = {2};
    options.bias = weight(Role::kConv2Bias);
    const Array second = ops::conv1d(first, weight(Role::kConv2), options, std::nullopt);
    const Array rows = *try_reshape(out(), {input.num_sequences, input.longest, out().shape()[1]});
    ops::copy_into(rows, ops::swapaxes(second, 1, 2, "encode"), "encode");
  }

  // Rows sorted by expert, times the matrix of each.
  [[nodiscard]] Array grouped(const Array& rows, Role role, const Array& sizes) const {
    if (const auto& packed = state.model.packed(role, step.layer))
      return ops::grouped_linear(rows, *packed, sizes, input.decodes);
    return ops::grouped_gemm_by_sizes(rows, weight(role), sizes);
  }

  void experts() const {
    const ModelConfig& c = config();
    ops::LinearOptions exact;
    const Array logits =
        Array::empty({in().shape()[0], c.num_experts}, in().dtype(), in().device(), "router");
    exact.out = logits;
    run_linear(in(), weight(step.weight), exact);
    ops::MoeRouteOptions options;
    options.renormalize = c.renormalize_experts;
    const ops::MoeRouting routing = ops::moe_route(logits, c.experts_per_token, options);
    const ops::MoePermutation sorted =
        ops::moe_permute(in(), routing.experts, c.num_experts, std::nullopt);
    const Array pair = grouped(sorted.rows, Role::kExpertsUp, sorted.sizes);
    const Array gate = slice_axis(pair, 1, 0, c.intermediate_size, 1);
    const Array up = slice_axis(pair, 1, c.intermediate_size, c.intermediate_size, 1);
    const bool silu = state.model.spec().activation == MlpActivation::kSilu;
    const Array inner = silu ? ops::silu_multiply(gate, up) : ops::gelu_multiply(gate, up);
    const Array down = grouped(inner, Role::kExpertsDown, sorted.sizes);
    if (step.residual == Slot::kNone) {
      ops::moe_unpermute(down, sorted.row_map, routing.weights, out());
      return;
    }
    const Array added = ops::moe_unpermute(down, sorted.row_map, routing.weights, std::nullopt);
    ops::add(slot(step.residual), added, &out());
  }

  // Of a decode step all rows are wanted: both slots are one array.
  void select() const {
    if (!input.decodes) ops::take(in(), *input.rows, 0, ops::IndexMode::kClip, out());
  }

  void softcap() const {
    const double cap = config().final_softcap;
    ops::multiply(in(), Scalar(1.0 / cap), &out());
    ops::tanh(out(), &out());
    ops::multiply(out(), Scalar(cap), &out());
  }

  void run() const {
    switch (step.kind) {
      case StepKind::kEmbed: embed(); break;
      case StepKind::kConvolve: convolve(); break;
      case StepKind::kAddPositions: add_positions(); break;
      case StepKind::kNorm: norm(); break;
      case StepKind::kLinear:
      case StepKind::kSwiglu: linear(); break;
      case StepKind::kGeglu: geglu(); break;
      case StepKind::kWriteKv: write_kv(); break;
      case StepKind::kAttention: attention(); break;
      case StepKind::kSelfAttention: self_attention(); break;
      case StepKind::kWriteCross: write_cross(); break;
      case StepKind::kCrossAttention: cross_attention(); break;
      case StepKind::kAdd: ops::add(out(), in(), &out()); break;
      case StepKind::kExperts: experts(); break;
      case StepKind::kSelect: select(); break;
      case StepKind::kSoftcap: softcap(); break;
    }
  }
};

}  // namespace

void run_steps(std::span<const Step> steps, const PassInput& input, PassState& state) {
  for (const Step& step : steps) Pass{input, state, step}.run();
}

void run_steps(const PassInput& input, PassState& state) {
  const std::int64_t last =
      input.num_layers > 0 ? input.num_layers : state.model.config().num_layers;
  const Model& model = state.model;
  for (const Step& step : (input.decodes ? model.decode_plan() : model.plan()).steps)
    if (step.layer < last) Pass{input, state, step}.run();
}

}  // namespace gpk::llm
