// What the kernels of kernels/transformer take. Activations are [rows, width], contiguous.
#pragma once

namespace gpk::kernels {

// Weights [n, k] are read as boxes of 8 rows and 512 of k: tensor maps of (64, n, k / 64).
inline constexpr int kTileRows = 8;
inline constexpr int kBlockK = 64;     // a line of 128 bytes
inline constexpr int kChunkLines = 8;  // of a box
inline constexpr int kTileBytes = kTileRows * kBlockK * kChunkLines * 2;
inline constexpr int kStageTiles = 2;
inline constexpr int kStageBytes = kStageTiles * kTileBytes;
inline constexpr int kMaxDecodeRows = 8;
inline constexpr int kMaxHidden = 8192;

inline constexpr int kConsumerWarps = 8;
inline constexpr int kConsumers = 32 * kConsumerWarps;
inline constexpr int kDecodeThreads = kConsumers + 32;  // and a warp that fetches weights

// Pairs of tiles whose sums are kept at once, and the shared memory for their reduction.
inline constexpr int kPairs = 4;
inline constexpr int kReduceBytes = kConsumerWarps * kPairs * kStageTiles * kMaxDecodeRows *
                                    kTileRows * static_cast<int>(sizeof(float));

// The maps of a layer, in the order in which they are read. The head's map follows the last layer.
enum LayerMap { kMapQkv, kMapOut, kMapGateUp, kMapDown, kLayerMaps };

struct DecodeLayer {
  const void* attention_norm;
  const void* mlp_norm;
  const void* qkv_bias;  // nullptr: none
  const void* q_norm;    // nullptr: none
  const void* k_norm;
  void* k_cache;
  void* v_cache;
};

// Beside KvWriteArgs and AttentionArgs, without what differs from layer to layer.
struct DecodeLayersArgs {
  const void* maps;  // TensorMap
  const DecodeLayer* layers;
  const void* final_norm;
  void* hidden;  // the residual stream; embeddings at first
  void* qkv;
  void* heads;
  void* inner;
  void* logits;
  unsigned* barrier;  // zero before and after
  int rows;
  int num_layers;
  int hidden_size;
  int q_size;
  int qkv_size;
  int inner_size;
  int vocab_size;
  int max_splits;  // of a sequence
  int head_map;
  int num_stages;
  int row_stride;  // rows of x in shared memory: a power of two
  int x_lines;     // lines of k that fit there, a multiple of kChunkLines
  float eps;
  float offset;  // added to the weights of norms
};
static_assert(sizeof(DecodeLayersArgs) == 128 && __is_trivially_copyable(DecodeLayersArgs));

}  // namespace gpk::kernels
