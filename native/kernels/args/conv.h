// What the kernels of kernels/conv take. Strides are in elements; along a row they are 1.
#pragma once

namespace gpk::kernels {

// Functions of the epilogue, named as those of ops/nn.
enum ConvActivation : unsigned {
  kConvNone,
  kConvRelu,
  kConvGelu,
  kConvGeluErf,
  kConvSilu,
  kConvTanh,
};

// Images [batch, channels, h, w]; sequences have h = 1.
struct ConvArgs {
  const void* x;
  const void* w;         // conv_mma: packed
  const void* bias;      // nullptr: none
  const void* residual;  // nullptr: none
  void* out;
  long long x_batch, x_channel, x_row;
  long long out_batch, out_channel, out_row;
  long long residual_batch, residual_channel, residual_row;
  int batch;
  int groups;
  int in_channels, out_channels;  // of a group
  int in_h, in_w;
  int out_h, out_w;
  int kernel_h, kernel_w;
  int stride_h, stride_w;
  int pad_h, pad_w;
  int dilation_h, dilation_w;
  unsigned activation;
  int unused;
};
static_assert(sizeof(ConvArgs) == 184 && __is_trivially_copyable(ConvArgs));

// --- conv_mma -----------------------------------------------------------------------------------

// Bytes of channels that a step multiplies: one line of shared memory.
inline constexpr int kConvLineBytes = 128;

// A GEMM of rows (output channels times phases) by positions. A transposed convolution of stride s
// is a plain one with s rows (phases) for each channel, whose results interleave.
struct ConvTiles {
  int phases;                    // 1: plain
  int out_first;                 // place of phase 0 of position 0 in the output
  int positions_h, positions_w;  // columns of the GEMM
  int tiles_h, tiles_w;          // of positions
  int tiles_m;                   // of rows, in a group
  int rows;                      // of a group
  int taps_h, taps_w;
  int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;  // of the GEMM's gather
  int k_blocks;                                                  // lines of channels
  int window_h, window_w;                                        // input that a tile reads
  int phase_pitch;                                               // lines of one residue of stride_w
  int pitch;                                                     // lines of one row of the window
  int wide;  // rows of out and residual are aligned to 16 bytes
};
static_assert(sizeof(ConvTiles) == 88 && __is_trivially_copyable(ConvTiles));

// Weights to [groups, k_blocks, taps, rows, line].
struct ConvPackArgs {
  const void* w;
  void* packed;
  long long num_chunks;           // of 16 bytes, below 2^31
  int in_channels, out_channels;  // of a group
  int taps;                       // of the kernel
  int phases;
  int gemm_taps;
  int k_blocks;
};
static_assert(sizeof(ConvPackArgs) == 48 && __is_trivially_copyable(ConvPackArgs));

// --- conv_direct, causal_conv -------------------------------------------------------------------

inline constexpr int kConvDirectThreads = 256;
inline constexpr int kConvDirectOutputs = 4;  // of a thread

struct ConvDirectGrid {
  long long num_lines;  // row chunks with work
  int chunks;           // of a row
  int lane_bits;        // log2 of the threads that share a chunk
};
static_assert(sizeof(ConvDirectGrid) == 16 && __is_trivially_copyable(ConvDirectGrid));

// Sequences [batch, channels, length]; state [batch, channels, taps - 1], the last inputs.
struct CausalConvArgs {
  const void* x;
  const void* w;      // [channels, taps]
  const void* bias;   // nullptr: none
  const void* state;  // nullptr: zeros
  void* out;
  void* state_out;
  long long x_batch, x_channel;
  long long out_batch, out_channel;
  ConvDirectGrid grid;
  int channels;
  int length;
  int taps;
  unsigned activation;
};
static_assert(sizeof(CausalConvArgs) == 112 && __is_trivially_copyable(CausalConvArgs));

}  // namespace gpk::kernels
