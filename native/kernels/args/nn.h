// What the kernels of kernels/nn take. Strides are in elements.
#pragma once

namespace gpk::kernels {

// --- rows: kernels/nn/row.cuh -------------------------------------------------------------------

// Threads of a block that holds several rows, and the most that share one row.
inline constexpr int kRowBlock = 128;
inline constexpr int kMaxRowGroup = 512;

// Rows of kArrays arrays that are fetched ahead. Two arrays in registers leave room for so few
// threads that nothing is gained.
template <int kArrays>
inline constexpr int kRowStages = kArrays == 1 ? 3 : 0;

// --- norms --------------------------------------------------------------------------------------

enum class NormMode : int { kRms, kLayer };

// Bits of a variant.
inline constexpr unsigned kNormResidual = 1;  // x + residual is normalised, and stored in `sum`
inline constexpr unsigned kNormQuantize = 2;  // out is e4m3, with a scale per row
inline constexpr unsigned kNormChannels = 4;  // weight and bias per channel, not per element

struct NormArgs {
  const void* x;
  const void* residual;
  const void* weight;  // nullptr: 1
  const void* bias;    // nullptr: 0
  void* out;
  void* sum;
  float* scales;
  long long x_row;  // from row to row
  long long residual_row;
  long long out_row;
  long long sum_row;
  long long rows;
  long long affine_row;  // channels: weights of one sample to the next; 0: shared
  int width;             // elements of a row
  int group;             // threads that share one
  int groups;            // channels: rows of one sample
  int channels;          // channels: of one row
  int span;              // channels: elements of one
  float eps;
  float offset;  // added to the weight
  int unused;
};
static_assert(sizeof(NormArgs) == 136 && __is_trivially_copyable(NormArgs));

// --- softmax ------------------------------------------------------------------------------------

// Where the mask's element of a row's first element is: leading dimensions, slowest first.
struct SoftmaxMaskLayout {
  static constexpr int kMaxDims = 6;
  long long size[kMaxDims] = {};
  long long stride[kMaxDims] = {};
  long long step = 0;  // along the row
  int num_dims = 0;
  int unused = 0;
};
static_assert(sizeof(SoftmaxMaskLayout) == 112 && __is_trivially_copyable(SoftmaxMaskLayout));

struct SoftmaxArgs {
  const void* x;
  const bool* mask;  // nullptr: none
  void* out;
  long long x_row;
  long long out_row;
  long long rows;
  long long inner;  // columns: elements between two of one softmax
  SoftmaxMaskLayout mask_layout;
  int width;
  int group;
  float scale;
  int unused;
};
static_assert(sizeof(SoftmaxArgs) == 184 && __is_trivially_copyable(SoftmaxArgs));

// --- fused functions ----------------------------------------------------------------------------

// Arrays that broadcast to the rows of the result, and numbers.
struct FusedRowsArgs {
  static constexpr int kMaxInputs = 8;
  static constexpr int kMaxDims = 6;
  const void* in[kMaxInputs];
  void* out;
  long long rows;
  long long size[kMaxDims];                          // of the axes of rows, the inner one first
  long long stride[kMaxDims][kMaxInputs + 1];        // the result's last
  alignas(16) unsigned char number[kMaxInputs][16];  // values of the compute type
  int num_dims;                                      // at least 1
  int width;
  int group;
  int unused;
};
static_assert(sizeof(FusedRowsArgs) == 704 && __is_trivially_copyable(FusedRowsArgs));

// --- log likelihood -----------------------------------------------------------------------------

struct LogLikelihoodArgs {
  const void* x;
  const void* targets;
  float* out;
  long long x_row;
  long long rows;
  long long ignored;  // a target that counts as likelihood 1
  int width;
  int group;
};
static_assert(sizeof(LogLikelihoodArgs) == 56 && __is_trivially_copyable(LogLikelihoodArgs));

// --- rotary positions ---------------------------------------------------------------------------

// x is [batch, seq, heads, 2 * half + tail], contiguous along the last axis.
struct RopeArgs {
  const void* x;
  void* out;
  const void* cos;        // [table_rows, half]; computed: nullptr
  const void* sin;        // computed: angles per position, [half] in float32
  const void* positions;  // of tokens; nullptr: start, start + 1, ...
  long long x_batch;
  long long x_seq;
  long long x_head;
  long long out_batch;
  long long out_seq;
  long long out_head;
  long long cos_row;
  long long sin_row;
  long long table_rows;
  long long start;
  long long num_items;        // threads with work
  long long positions_batch;  // from batch to batch; 0: shared
  int seq;
  int heads;
  int half;
  int tail;      // elements that are copied; 0 in place
  float factor;  // computed: of both cos and sin
  int unused;
};
static_assert(sizeof(RopeArgs) == 160 && __is_trivially_copyable(RopeArgs));

// --- embeddings ---------------------------------------------------------------------------------

// Whether indices are int64, else int32.
inline constexpr unsigned kWideIds = 1;
inline constexpr unsigned kWideTokenPositions = 2;

// Tables are contiguous along the last axis, out is contiguous.
struct EmbeddingArgs {
  const void* table;           // [vocabulary, dim]
  const void* position_table;  // [position_rows, dim]; nullptr: none
  const void* ids;             // of tokens
  const void* positions;       // of tokens; nullptr: start, start + 1, ... in each sequence
  void* out;
  long long table_row;
  long long position_row;
  long long vocabulary;
  long long position_rows;
  long long start;
  long long seq;        // tokens of a sequence
  long long num_items;  // threads with work
  int accesses;         // of a row
  int shared;           // positions are those of one sequence
  float scale;
  unsigned wide;
};
static_assert(sizeof(EmbeddingArgs) == 112 && __is_trivially_copyable(EmbeddingArgs));

}  // namespace gpk::kernels
