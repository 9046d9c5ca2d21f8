// One forward pass as a list of steps: pure, printable, the same for every batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llm/weight_layout.h"

namespace gpk::llm {

// Where a step reads and writes: a buffer with a row for each token (or each row of logits).
enum class Slot : std::uint8_t {
  kNone,
  kHidden,  // the residual stream
  kNormed,
  kQkv,
  kQuery,     // normalised and rotated
  kHeads,     // what attention gives
  kSource,    // the states of an encoder, for a decoder's cross cache
  kCrossKv,   // their keys and values
  kPair,      // gate and up
  kInner,     // of the MLP
  kDelta,     // what a block adds to the residual stream, where it is normalised first
  kSelected,  // rows of kHidden that logits are wanted for
  kLogits,
};
inline constexpr int kNumSlots = static_cast<int>(Slot::kLogits) + 1;
const char* to_string(Slot slot);

enum class StepKind : std::uint8_t {
  kEmbed,           // out = embedding[tokens] * scale
  kConvolve,        // out = the rows that two convolutions make of a spectrogram
  kAddPositions,    // out += weight[positions]
  kNorm,            // out = norm(in, weight, bias)
  kLinear,          // out = activation(in weight^T + bias) + residual
  kSwiglu,          // out = silu(gate) * up of in weight^T
  kGeglu,           // out = gelu(gate) * up of in
  kWriteKv,         // out and the cache = the heads of in, normalised and rotated
  kAttention,       // out = attention(in, cache)
  kSelfAttention,   // out = attention of in to itself, every row to all of its sequence
  kWriteCross,      // the cross cache = the heads of in
  kCrossAttention,  // out = attention(in, cross cache)
  kAdd,             // out += in
  kExperts,         // out = in through the experts that the router chose, + residual
  kSelect,          // out = rows of in
  kSoftcap,         // out = cap * tanh(in / cap)
};

struct Step {
  StepKind kind;
  std::int64_t layer = -1;
  Slot in = Slot::kNone;
  Slot out = Slot::kNone;
  Role weight = Role::kNone;
  Role bias = Role::kNone;
  Slot residual = Slot::kNone;
  bool gelu = false;        // kLinear: the model's activation
  Role norm = Role::kNone;  // kLinear, kSwiglu: in is normalised first
  Role norm_bias = Role::kNone;
  friend bool operator==(const Step&, const Step&) = default;
};

struct ModelPlan {
  std::vector<Step> steps;
};

ModelPlan plan_model(const ModelSpec& spec, const ModelConfig& config);

// The cross cache of a source from the states of its encoder.
ModelPlan plan_source(const ModelSpec& spec, const ModelConfig& config);

// The plan of a decode step: norms become part of the linear layers that read them.
ModelPlan fuse_norms(const ModelPlan& plan);

// Elements in a row of a slot.
std::int64_t slot_width(Slot slot, const ModelSpec& spec, const ModelConfig& config);

// "layer 3: qkv = normed @ qkv^T + qkv_bias", a line for each step.
std::string to_string(const ModelPlan& plan, const ModelSpec& spec, const ModelConfig& config);

}  // namespace gpk::llm
