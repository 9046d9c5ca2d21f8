// All layers of a transformer decoder and its head, for a few rows, in one launch. A row's bits
// depend on nothing but its own sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/array.h"

namespace gpk::ops {

// Weights are [out, in], contiguous, float16 or bfloat16, and never written again.
struct DecoderLayer {
  Array attention_norm;
  Array qkv;
  std::optional<Array> qkv_bias;
  std::optional<Array> q_norm, k_norm;  // [head_dim]; both or none
  Array out;
  Array mlp_norm;
  Array gate_up;
  Array down;
  Array k_cache, v_cache;  // [blocks, page, kv_heads, head_dim]
};

struct DecoderWeights {
  std::vector<DecoderLayer> layers;
  Array final_norm;
  Array head;      // [vocabulary, hidden]
  Array cos, sin;  // float32 [positions, half]
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t inner_size = 0;
  std::int64_t max_length = 0;  // of a sequence
  double norm_eps = 1e-6;
  double norm_offset = 0.0;
  double scale = 0.0;  // of scores
};

inline constexpr std::int64_t kMaxDecodeLayersRows = 8;

// Whether a GPU and the kernel take these sizes. SM90 and later.
bool can_decode_layers(const DecoderWeights& weights);

class DecodeLayers {
 public:
  // can_decode_layers(weights) holds.
  explicit DecodeLayers(DecoderWeights weights);
  ~DecodeLayers();

  // For each row: `hidden` [rows, hidden] are embeddings, overwritten; positions, slots, lengths
  // are int32 [rows], tables int32 [rows, blocks]. Rows of one sequence see each other. Runs the
  // first `num_layers`. Enqueues; calls of one object are ordered by their streams' arrays.
  void run(const Array& hidden, const Array& positions, const Array& slots, const Array& lengths,
           const Array& tables, std::int64_t num_layers, const Array& logits);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpk::ops
