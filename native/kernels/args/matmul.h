// Arguments of the kernels in kernels/matmul.
#pragma once

namespace gpk::kernels {

// --- epilogue -----------------------------------------------------------------------------------

// The steps of an epilogue; above them, from bit kEpilogueActivationShift on, an ActivationCode.
enum EpilogueFlags : unsigned {
  kEpilogueAlpha = 1,
  kEpilogueScales = 2,  // one or both; alpha is applied too
  kEpilogueBias = 4,
  kEpilogueResidual = 8,  // beta is applied too
};
enum : unsigned { kEpilogueActivationShift = 4 };

// kActivationGelu: the tanh approximation; kActivationGeluErf: x * Phi(x).
enum ActivationCode : unsigned {
  kActivationNone,
  kActivationRelu,
  kActivationGelu,
  kActivationSilu,
  kActivationGeluErf,
};

struct EpilogueArgs {
  const void* bias = nullptr;
  const void* residual = nullptr;
  const float* scale_a = nullptr;  // null: 1
  const float* scale_b = nullptr;
  long long bias_step = 0;
  long long scale_a_step = 0, scale_b_step = 0;
  long long residual_m = 0, residual_n = 0, residual_batch = 0;
  float alpha = 1.0f, beta = 1.0f;
};
static_assert(sizeof(EpilogueArgs) == 88 && __is_trivially_copyable(EpilogueArgs));

// --- any strides --------------------------------------------------------------------------------

struct MatmulArgs {
  static constexpr int kMaxBatchRank = 6;
  const void* a;
  const void* b;
  void* c;
  void* partial;  // [splits][batch, m, n] of the accumulator type; null: results go to c
  long long m, n, k;
  long long a_m, a_k, b_k, b_n, c_m, c_n;
  long long num_batches, batch_rank;
  long long splits, k_per_split;
  long long batch_shape[kMaxBatchRank];
  long long batch_a[kMaxBatchRank], batch_b[kMaxBatchRank], batch_c[kMaxBatchRank];
};
static_assert(sizeof(MatmulArgs) == 328 && __is_trivially_copyable(MatmulArgs));

// --- tiled GEMM: gemm_mma, gemm_simt ------------------------------------------------------------

struct TileGrid {
  unsigned tiles_m, tiles_n;
  unsigned group;    // rows of tiles rasterised column by column, for L2 reuse
  unsigned swapped;  // nonzero: C^T is computed; the epilogue's i and j are swapped
  unsigned flags;    // of the epilogue; here at run time only
};
static_assert(sizeof(TileGrid) == 20 && __is_trivially_copyable(TileGrid));

// Scales of FP8 operands per block of 128 of k: of a for each row, of b for each 128 columns.
struct BlockScaleArgs {
  const float* a;
  const float* b;
  long long a_m, a_k, b_n, b_k;  // steps, from row (block of columns) or block of k to the next
};
static_assert(sizeof(BlockScaleArgs) == 48 && __is_trivially_copyable(BlockScaleArgs));

// Packed weights of gemm_packed: scales as in PackedGemvArgs, 2^group_shift values of k to each.
struct PackedTileArgs {
  const unsigned char* values;
  const void* scales;
  const unsigned char* zeros;  // null: none
  const float* tensor_scale;   // null: 1
  long long n;
  long long pitch;      // bytes from row to row of values
  long long scale_row;  // scales of a row
  int scale_shift;      // 7: a scale for 128 rows
  int group_shift;      // 63: a scale for all of k
};
static_assert(sizeof(PackedTileArgs) == 64 && __is_trivially_copyable(PackedTileArgs));

// Operands of gemm_scaled_mma: K in bytes, scales [rows, groups] on four bytes.
struct ScaledTileArgs {
  const unsigned char* a;
  const unsigned char* b;
  long long groups;
};
static_assert(sizeof(ScaledTileArgs) == 24 && __is_trivially_copyable(ScaledTileArgs));

// 2:4 sparse weights of gemm_sparse: see kernels/quantize/sparse.cuh.
struct SparseTileArgs {
  const void* values;
  const unsigned* metadata;
  long long pitch;  // elements from row to row of values: a multiple of 8
  long long row_blocks, k_blocks;
};
static_assert(sizeof(SparseTileArgs) == 40 && __is_trivially_copyable(SparseTileArgs));

// --- ozaki --------------------------------------------------------------------------------------

enum : int {
  kOzakiThreads = 128,
  kOzakiSlices = 8,
  kOzakiNotFinite = 0x7fffffff,  // the exponent of a row with an infinity or NaN
};

struct OzakiSliceArgs {
  const double* x;      // [rows, k]
  signed char* slices;  // [chunks, rows, slices, pitch], 0 past k
  int* exponents;       // [rows]
  long long rows, k;
  long long chunks, pitch;  // of k; pitch is a multiple of 16
  int reversed;             // nonzero: the last slice first
};
static_assert(sizeof(OzakiSliceArgs) == 64 && __is_trivially_copyable(OzakiSliceArgs));

// Beside the MatmulArgs of C.
struct OzakiSumArgs {
  const int* sums;                // [chunks, slices, batches, num_rows, n]
  const int* exponents_a;         // [batches, m]
  const int* exponents_b;         // [batches, n]
  long long first_row, num_rows;  // of C, of each batch
  long long chunks;
};
static_assert(sizeof(OzakiSumArgs) == 48 && __is_trivially_copyable(OzakiSumArgs));

// --- gemm_wgmma ---------------------------------------------------------------------------------

enum WgmmaStore : int {
  kStoreRows,     // row-major C, by TMA
  kStoreColumns,  // column-major C: transposed in shared memory, by TMA
  kStoreStrided,  // element by element
};

// Destination of the accumulators: sizes and strides in terms of their rows and columns.
struct WgmmaTarget {
  void* c;                      // strided stores only, like the strides
  long long c_m, c_n, c_batch;  // in elements
  int m, n;
  int transposed;  // rows of accumulators are columns of C
};

struct GemmWgmmaArgs {
  WgmmaTarget target;
  int tiles_m, tiles_n;  // tiles_m in units of clusters that share B by multicast
  int batches, splits;   // split-K: each split has its own results, after all batches
  int k_steps, k_steps_per_split;
  int group;
  int a_batch, b_batch;  // 0: the same matrix for all batches
};
static_assert(sizeof(GemmWgmmaArgs) == 88 && __is_trivially_copyable(GemmWgmmaArgs));

// --- gemv ---------------------------------------------------------------------------------------

// Bits of GemvArgs::flags, above those of the epilogue.
enum GemvFlags : unsigned {
  kGemvFloatOut = 1u << 16,    // y is float32, whatever the types of x and w
  kGemvTransposed = 1u << 17,  // y is C^T: the epilogue sees (j, i)
};

// How a kernel is ordered after its predecessor on the stream.
enum GemvOrder : int {
  kOrderPlain,     // launched after the predecessor has ended
  kOrderWait,      // programmatic dependent launch; everything after griddepcontrol.wait
  kOrderPrefetch,  // same, but w, which the predecessor must not write, is loaded before the wait
};

struct GemvArgs {
  const void* x;
  const void* w;
  void* y;
  float* partial;  // null: no split-K, or within a cluster
  long long m, n, k;
  long long x_m;      // row pitch of x: K-major, rows aligned to 16 bytes (or to kAlign)
  long long w_pitch;  // row pitch of w: of its n rows, or (columns kernels) of its k rows
  long long y_m, y_n;
  long long x_batch, w_batch, y_batch;
  long long k_per_split;    // a multiple of 64
  long long k_warps;        // warps of a block that share rows: a power of two up to 8
  long long flags;          // EpilogueFlags and GemvFlags
  const void* norm_weight;  // gemv_mma with kNorm: of x's columns
  const void* norm_bias;    // null: none; as norm_centred, in chains only
  float norm_eps, norm_offset;
  int norm_centred;  // layernorm, else rmsnorm
  int unused;
};
static_assert(sizeof(GemvArgs) == 168 && __is_trivially_copyable(GemvArgs));

// --- gemv_packed --------------------------------------------------------------------------------

// GemvArgs of packed weights: w_pitch is in bytes, a multiple of 16; k is a multiple of 8.
struct PackedGemvArgs {
  GemvArgs gemv;
  const void* scales;          // [n >> scale_shift, scale_row]; null where the epilogue has them
  const unsigned char* zeros;  // [n, scale_row]; null: none
  const float* tensor_scale;   // null: 1
  long long scale_row;
  int scale_shift;  // 7: a scale for 128 rows
  int prefetch;     // nonzero: w, which the predecessor must not write, is loaded before the wait
  // Groups of rows, each with a matrix of its own; null: one.
  const int* sizes;        // [experts]
  long long w_expert;      // bytes from matrix to matrix
  long long scale_expert;  // scales
};
static_assert(sizeof(PackedGemvArgs) == 232 && __is_trivially_copyable(PackedGemvArgs));

// --- grouped ------------------------------------------------------------------------------------

struct GroupedArgs {
  static constexpr int kTile = 64;  // rows and columns of a block
  const void* x;
  const void* w;
  void* c;
  const int* sizes;
  const int* rows;
  long long m, n, k, experts;
  long long x_m, x_k, w_e, w_n, w_k, c_m, c_n, sizes_step;
  long long tiles_n;
};
static_assert(sizeof(GroupedArgs) == 144 && __is_trivially_copyable(GroupedArgs));

// Tiles of groups of rows: kernels/matmul/group_tiles.cuh.
struct GroupTilesArgs {
  const int* sizes;  // of groups
  long long sizes_step;
  int m, groups;
  int tiles_n;
  int raster;  // rows of tiles rasterised column by column, for L2 reuse
};
static_assert(sizeof(GroupTilesArgs) == 32 && __is_trivially_copyable(GroupTilesArgs));

// Its table in shared memory: where the tiles and the rows of a group end.
struct GroupEnds {
  int tiles, rows;
};

struct GroupedWgmmaArgs {
  GroupTilesArgs tiles;
  void* c;
  long long c_m;
  int n, k_steps;
};
static_assert(sizeof(GroupedWgmmaArgs) == 56 && __is_trivially_copyable(GroupedWgmmaArgs));

struct GroupRowsArgs {
  const int* ids;
  int* sizes;  // [experts + 1]
  int* next;   // [experts + 1], scratch
  int* rows;   // [m]
  long long m, experts, ids_step;
};
static_assert(sizeof(GroupRowsArgs) == 56 && __is_trivially_copyable(GroupRowsArgs));

// --- swiglu -------------------------------------------------------------------------------------

struct SwigluArgs {
  const void* both;
  const void* bias;      // null: none
  const void* residual;  // null: none; may be the result
  void* result;
  long long rows, n;
  long long bias_step, residual_m, residual_n, result_m, result_n;
};
static_assert(sizeof(SwigluArgs) == 88 && __is_trivially_copyable(SwigluArgs));

}  // namespace gpk::kernels
