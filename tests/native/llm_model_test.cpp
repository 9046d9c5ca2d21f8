// Models as data: specs, configs, layouts of weights, plans, and where their slots are.
#include <gtest/gtest.h>

#include "base/error.h"
#include "llm/config_json.h"
#include "llm/kv_pages.h"
#include "llm/model_plan.h"
#include "llm/slot_memory.h"

namespace gpk::llm {
namespace {

ModelConfig small(const ModelSpec& spec) {
  std::string text = R"({"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96,
    "num_local_experts": 4, "num_experts_per_tok": 2, "max_position_embeddings": 128)";
  if (spec.name == "gpt2") text = R"({"vocab_size": 100, "n_embd": 64, "n_layer": 2, "n_head": 4)";
  return read_config(parse_json(text + "}", "config.json"), spec);
}

std::string refusal(const std::string& config, const char* family = "llama") {
  try {
    read_config(parse_json(config, "config.json"), spec_of_type(family));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ModelSpec, EveryFamilyHasWhatAPlanNeeds) {
  for (const ModelSpec& spec : model_specs()) {
    EXPECT_EQ(&spec_of_type(spec.hf_model_type), &spec);
    for (const std::string& name : {spec.embed_tokens, spec.final_norm, spec.attn_norm, spec.q_proj,
                                    spec.o_proj, spec.mlp_norm})
      EXPECT_FALSE(name.empty()) << spec.name;
    EXPECT_EQ(spec.qkv_combined, spec.k_proj.empty()) << spec.name;
    EXPECT_NE(spec.is_gated(), !spec.fc1.empty()) << spec.name;
  }
  EXPECT_THROW(spec_of_type("mamba"), InvalidArgument);
}

TEST(ModelSpec, IsFoundByNamesOfTensors) {
  const auto family = [](std::vector<std::string> names) { return detect_spec(names).name; };
  const std::string embed = "model.embed_tokens.weight";
  EXPECT_EQ(family({"transformer.wte.weight"}), "gpt2");
  EXPECT_EQ(family({embed}), "llama");
  EXPECT_EQ(family({embed, "model.layers.0.self_attn.q_proj.bias"}), "qwen2");
  EXPECT_EQ(family({embed, "model.layers.0.self_attn.q_norm.weight"}), "qwen3");
  EXPECT_EQ(family({"model.layers.0.mlp.experts.0.up_proj.weight",
                    "model.layers.0.self_attn.q_norm.weight"}),
            "qwen3_moe");
  EXPECT_EQ(family({"model.layers.0.block_sparse_moe.gate.weight"}), "mixtral");
  EXPECT_EQ(family({embed, "model.layers.0.self_attn.qkv_proj.weight"}), "phi3");
  EXPECT_THROW(family({"encoder.weight"}), InvalidArgument);
}

TEST(ModelConfig, IsReadAsEitherVersionOfTransformersWritesIt) {
  const std::string sizes = R"("vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 2,
    "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 64)";
  const auto read = [&](const std::string& rest) {
    return read_config(parse_json("{" + sizes + rest + "}", "config.json"), spec_of_type("llama"));
  };
  for (const std::string& text :
       {std::string(R"(, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0})"),
        std::string(R"(, "rope_parameters": {"rope_theta": 5e5, "rope_type": "linear",
                        "factor": 4})")}) {
    const ModelConfig config = read(text);
    EXPECT_EQ(config.rope.theta, 5e5);
    EXPECT_EQ(config.rope.scaling.kind, ops::RopeKind::kLinear);
    EXPECT_EQ(config.rope.scaling.factor, 4.0);
    EXPECT_EQ(config.num_kv_heads, 2);
    EXPECT_EQ(config.head_dim, 4);
  }
  EXPECT_EQ(read("").rope.theta, 10000.0);
}

TEST(ModelConfig, RefusalsNameTheField) {
  EXPECT_NE(refusal("{}").find("has no vocab_size"), std::string::npos);
  EXPECT_NE(refusal(R"({"vocab_size": 1.5})").find("vocab_size of config.json is a number"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 0,
    "num_attention_heads": 2, "intermediate_size": 4})")
                .find("num_hidden_layers is 0"),
            std::string::npos);
}

// The config.json of gemma-3-4b-it has these numbers and no others.
TEST(ModelConfig, MissingNumbersAreThoseOfTheClassInTransformers) {
  const auto read = [](const std::string& text, const char* family) {
    return read_config(parse_json(text, "config.json"), spec_of_type(family));
  };
  const std::string text = R"({"model_type": "gemma3", "text_config": {"hidden_size": 2560,
    "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}, "vision_config": {}})";
  EXPECT_EQ(model_type_of(parse_json(text, "config.json")), "gemma3_text");
  const ModelConfig gemma = read(text, "gemma3_text");
  EXPECT_EQ(gemma.vocab_size, 262208);
  EXPECT_EQ(gemma.num_heads, 8);
  EXPECT_EQ(gemma.num_kv_heads, 4);
  EXPECT_EQ(gemma.head_dim, 256);
  EXPECT_EQ(gemma.attention_scale, 1.0 / 16.0);
  EXPECT_EQ(gemma.rope.theta, 1e6);
  EXPECT_EQ(gemma.rope.scaling.kind, ops::RopeKind::kLinear);
  EXPECT_EQ(gemma.local_rope.theta, 1e4);
  EXPECT_EQ(gemma.local_rope.scaling.kind, ops::RopeKind::kDefault);
  EXPECT_TRUE(gemma.has_window[4]);
  EXPECT_FALSE(gemma.has_window[5]);
  const std::string sizes = R"({"vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 2,
    "num_attention_heads": 2, "intermediate_size": 16, "num_experts": 16)";
  EXPECT_EQ(read(sizes + "}", "gemma2").attention_softcap, 50.0);
  EXPECT_EQ(read(sizes + R"(, "attn_logit_softcapping": null})", "gemma2").attention_softcap, 0.0);
  EXPECT_EQ(read(sizes + "}", "mistral").window, 4096);
  EXPECT_EQ(read(sizes + R"(, "sliding_window": null})", "mistral").window, 0);
  EXPECT_EQ(read(sizes + R"(, "sliding_window": 3})", "qwen2").window, 0);
  EXPECT_FALSE(read(sizes + "}", "qwen3_moe").renormalize_experts);
  EXPECT_EQ(read(sizes + "}", "qwen3_moe").experts_per_token, 8);
}

TEST(WeightLayout, ProjectionsOfTheSameRowsAreOneMatrix) {
  const ModelSpec& spec = spec_of_type("llama");
  for (const Weight& weight : weight_layout(spec, small(spec))) {
    if (weight.role != Role::kQkv) continue;
    EXPECT_EQ(weight.shape, (Dims{128, 64}));
    ASSERT_EQ(weight.parts.size(), 3u);
    EXPECT_EQ(weight.parts[1].row, 64);
    EXPECT_EQ(weight.parts[2].row, 96);
  }
}

TEST(WeightLayout, TensorsThatDoNotFitAreNamed) {
  const ModelSpec& spec = spec_of_type("qwen2");
  const std::vector<Weight> layout = weight_layout(spec, small(spec));
  std::map<std::string, Dims> tensors;
  for (const Weight& weight : layout)
    for (const WeightPart& part : weight.parts) tensors[part.tensor] = part.shape;
  std::string prefix;
  check_tensors(layout, spec, tensors, prefix);
  const auto message = [&](const auto& change) {
    std::map<std::string, Dims> changed = tensors;
    change(changed);
    try {
      check_tensors(layout, spec, changed, prefix);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string bias = "model.layers.1.self_attn.k_proj.bias";
  EXPECT_NE(
      message([&](auto& t) { t.erase(bias); }).find("1 tensors of qwen2 are missing: " + bias),
      std::string::npos);
  EXPECT_NE(message([&](auto& t) { t[bias] = {31}; }).find(bias + " has shape (31,)"),
            std::string::npos);
  EXPECT_NE(message([&](auto& t) { t["odd"] = {3}; }).find("none of qwen2's: odd"),
            std::string::npos);
  EXPECT_EQ(message([&](auto& t) { t["model.rotary_emb.inv_freq"] = {3}; }), "accepted");
}

// f(spec, config, plan) for every family: the plan of any pass, and that of decode steps.
template <class F>
void each_plan(const F& f) {
  for (const ModelSpec& spec : model_specs()) {
    const ModelConfig config = small(spec);
    const ModelPlan plan = plan_model(spec, config);
    f(spec, config, plan);
    f(spec, config, fuse_norms(plan));
  }
}

TEST(ModelPlan, EveryStepReadsWhatWasWritten) {
  each_plan([](const ModelSpec& spec, const ModelConfig&, const ModelPlan& plan) {
    std::vector<bool> written(kNumSlots, false);
    for (const Step& step : plan.steps) {
      if (step.in != Slot::kNone) {
        EXPECT_TRUE(written[static_cast<std::size_t>(step.in)]) << spec.name;
      }
      if (step.residual != Slot::kNone) {
        EXPECT_TRUE(written[static_cast<std::size_t>(step.residual)]) << spec.name;
      }
      written[static_cast<std::size_t>(step.out)] = true;
    }
    EXPECT_TRUE(written[static_cast<std::size_t>(Slot::kLogits)]);
  });
}

TEST(ModelPlan, AsText) {
  const ModelSpec& spec = spec_of_type("gemma2");
  ModelConfig config = small(spec);
  config.num_layers = 1;
  config.has_window = {true};
  config.window = 7;
  config.final_softcap = 10.0;
  config.attention_softcap = 20.0;
  EXPECT_EQ(to_string(plan_model(spec, config), spec, config),
            "hidden = embedding[tokens] * 8\n"
            "layer 0: normed = rmsnorm(hidden, 1 + attention_norm)\n"
            "layer 0: qkv = normed @ qkv^T\n"
            "layer 0: query, cache = write(qkv, local_rope)\n"
            "layer 0: heads = attention(query, cache, window=7, softcap=20, scale=0.0625)\n"
            "layer 0: delta = heads @ output^T\n"
            "layer 0: delta = rmsnorm(delta, 1 + attention_post_norm)\n"
            "layer 0: hidden = hidden + delta\n"
            "layer 0: normed = rmsnorm(hidden, 1 + mlp_norm)\n"
            "layer 0: pair = normed @ up^T\n"
            "layer 0: inner = geglu(pair)\n"
            "layer 0: delta = inner @ down^T\n"
            "layer 0: delta = rmsnorm(delta, 1 + mlp_post_norm)\n"
            "layer 0: hidden = hidden + delta\n"
            "selected = hidden[rows]\n"
            "selected = rmsnorm(selected, 1 + final_norm)\n"
            "logits = selected @ embedding^T\n"
            "logits = softcap(logits, 10)\n");
}

TEST(ModelPlan, NormsBelongToTheLayersThatReadThem) {
  const ModelSpec& spec = spec_of_type("qwen3");
  ModelConfig config = small(spec);
  config.num_layers = 1;
  EXPECT_EQ(to_string(fuse_norms(plan_model(spec, config)), spec, config),
            "hidden = embedding[tokens]\n"
            "layer 0: qkv = rmsnorm(hidden, attention_norm) @ qkv^T\n"
            "layer 0: query, cache = write(qkv, q_norm, k_norm, rope)\n"
            "layer 0: heads = attention(query, cache)\n"
            "layer 0: hidden = heads @ output^T + hidden\n"
            "layer 0: inner = swiglu(rmsnorm(hidden, mlp_norm) @ up^T)\n"
            "layer 0: hidden = inner @ down^T + hidden\n"
            "selected = hidden[rows]\n"
            "logits = rmsnorm(selected, final_norm) @ head^T\n");
  const ModelSpec& layers = spec_of_type("gpt2");
  const ModelConfig sizes = small(layers);
  EXPECT_NE(to_string(fuse_norms(plan_model(layers, sizes)), layers, sizes)
                .find("qkv = layernorm(hidden, attention_norm, attention_norm_bias) @ qkv^T"),
            std::string::npos);
}

// No step may read a slot whose memory another slot took after it was written.
TEST(SlotMemory, LiveSlotsDoNotOverlap) {
  each_plan([](const ModelSpec& spec, const ModelConfig& config, const ModelPlan& plan) {
    const SlotMemory memory = place_slots(plan_model(spec, config), spec, config);
    std::vector<Slot> owner(static_cast<std::size_t>(memory.width), Slot::kNone);
    const auto each = [&](Slot slot, const auto& visit) {
      if (slot == Slot::kNone || slot == Slot::kSelected || slot == Slot::kLogits) return;
      const auto first = static_cast<std::size_t>(memory.offset[static_cast<std::size_t>(slot)]);
      const auto width = static_cast<std::size_t>(slot_width(slot, spec, config));
      for (std::size_t i = first; i < first + width; ++i) visit(owner[i]);
    };
    for (const Step& step : plan.steps) {
      for (const Slot slot : {step.in, step.residual})
        each(slot, [&](Slot o) { ASSERT_EQ(o, slot) << spec.name; });
      each(step.out, [&](Slot& o) { o = step.out; });
      each(step.in, [&](Slot o) { ASSERT_EQ(o, step.in) << spec.name; });  // not overwritten by out
    }
  });
}

TEST(Sequence, OwnsItsPages) {
  const ModelConfig config = small(spec_of_type("llama"));
  const auto pages = std::make_shared<KvPages>(config, DType::kFloat32, Device{}, 4, 16);
  {
    Sequence a(pages, 48);
    a.reserve(17);
    EXPECT_EQ(a.table().size(), 2u);
    a.advance(17);
    Sequence b(pages, 48);
    EXPECT_THROW(b.reserve(48), Error);  // three pages, two are left
    EXPECT_EQ(pages->num_free(), 2);
    EXPECT_THROW(b.reserve(49), InvalidArgument);
    a.truncate(3);
    EXPECT_EQ(a.length(), 3);
    EXPECT_EQ(pages->num_free(), 3);
    const Sequence moved = std::move(a);
    EXPECT_EQ(moved.length(), 3);
  }
  EXPECT_EQ(pages->num_free(), 4);
  EXPECT_THROW(KvPages(config, DType::kFloat32, Device{}, 4, 24), InvalidArgument);
}

}  // namespace
}  // namespace gpk::llm
