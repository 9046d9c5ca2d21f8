// What the kernels of kernels/fft take. Strides are in elements of the array they belong to.
#pragma once

namespace gpk::kernels {

// How a block walks memory: along the axis, whose elements are adjacent (threads with neighbouring
// elements are neighbours), or across transforms that are adjacent.
enum class FftSide : int { kRow, kColumn };

// What element i of a transform of n is.
enum class FftFetch : int {
  kComplex,    // x[i]
  kReal,       // x[i], imaginary part 0
  kPacked,     // x[2i] + i x[2i + 1] of 2n reals
  kHermitian,  // x[i] up to n / 2, then conj(x[n - i]); n is odd
  kHalf,       // the first half of the spectrum of 2n reals, folded: see element.cuh
  kFilter,     // nothing is read: Bluestein's filter
};

// Where output k of a transform of n goes.
enum class FftPut : int {
  kComplex,  // y[k]
  kReal,     // the real part, y[k]
  kPacked,   // y[2k] and y[2k + 1], reals
  kHalf,     // y[0 .. n], the first half of the spectrum of 2n packed reals
};

// What an output is multiplied by before it is stored.
enum class FftTwist : int {
  kNone,
  kTwiddle,  // of a pass of several: e^(-2 pi i c k / root), c the index along coords[0]
  kTable,    // table[index]
  kChirp,    // Bluestein: the conjugate, times e^(-pi i index^2 / chirp_n)
};

inline constexpr int kFftMaxCoords = 4;
inline constexpr int kFftMaxStages = 16;
inline constexpr int kFftGeneralThreads = 256;
inline constexpr int kFftMergeThreads = 256;

// In the shared memory of fft_block one element of 17 is padding where the first radix is a
// multiple of this: the first stage's results would share banks.
inline constexpr int kFftPaddedRadix = 4;

// One of the coordinates of transforms.
struct FftCoord {
  long long size;
  long long in, out;             // strides
  unsigned in_index, out_index;  // what a step adds to the index in the whole transform
};

// Element i of a transform is element in_step * i + (in_index of its coordinates) of the whole
// transform, at in_stride times that from the start of the coordinates; outputs likewise.
struct FftArgs {
  const void* in;
  void* out;
  const void* table;  // FftTwist::kTable, and the filter between two rounds
  FftCoord coords[kFftMaxCoords];
  long long in_stride, out_stride;
  double sign;  // of imaginary parts that are read
  double scale_re, scale_im;
  unsigned in_step, out_step;
  unsigned root;     // of twiddles
  unsigned chirp_n;  // points of Bluestein's transform
  int length;        // of the whole transform that kHermitian, kHalf and kFilter are of
  int valid;         // elements of the whole input; the others are zeros
  int count;         // outputs of the whole transform to store
  unsigned tiles;    // of blocks along coords[0]
  int num_coords;
  int in_pairs, out_pairs;  // packed reals may be accessed in pairs
  // What fft_block has as template arguments.
  int n, group, pitch;
  int num_stages;
  int radices[kFftMaxStages];
  FftSide in_side, out_side;
  FftFetch fetch;
  FftPut put;
  FftTwist twist;
  int chirp;   // inputs are multiplied by e^(-pi i index^2 / chirp_n)
  int rounds;  // 2: Bluestein in one launch, the filter's spectrum in `table`
};
static_assert(sizeof(FftArgs) == 344 && __is_trivially_copyable(FftArgs));

}  // namespace gpk::kernels
