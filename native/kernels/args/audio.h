// What the kernels of kernels/audio take. Arrays are contiguous; R is float or double.
#pragma once

namespace gpk::kernels {

inline constexpr int kAudioThreads = 256;

// --- resampling
// -----------------------------------------------------------------------------------

inline constexpr int kResampleFrames = 4;  // outputs of a thread, of one phase

struct ResampleArgs {
  const void* x;     // [lines, n]
  void* out;         // [lines, count]
  const void* taps;  // [num_taps, up]
  long long n, count;
  long long lines;
  int up, down;  // output m is at m * down / up of the input
  int num_taps;
  int before;  // taps ahead of the sample at or before the output
  int edge;    // outside of x: its first and last sample instead of 0
  int unused;
};
static_assert(sizeof(ResampleArgs) == 72 && __is_trivially_copyable(ResampleArgs));

// --- overlap-add
// ----------------------------------------------------------------------------------

struct OverlapAddArgs {
  const void* frames;  // [lines, num_frames, n]
  const void* window;  // [n]; nullptr: ones, and no division
  void* out;           // [lines, count]
  long long num_frames;
  long long start, count;  // the part of the sum that is stored
  long long lines;
  int n, hop;
};
static_assert(sizeof(OverlapAddArgs) == 64 && __is_trivially_copyable(OverlapAddArgs));

// --- spectrograms
// ---------------------------------------------------------------------------------

enum class AudioPad : int { kConstant, kEdge, kReflect };
enum class SpectrumOutput : int { kComplex, kPower, kMagnitude, kMel };
// Of mel outputs. kWhisper is kLog10 with maxima, for audio_whisper_scale.
enum class SpectrumLog : int { kNone, kLn, kLog10, kWhisper };

struct SpectrogramArgs {
  const float* x;       // [lines, n]
  const float* window;  // [2 points of the complex transform]
  const float* bank;    // kMel: [num_mels, bins]
  const int* ranges;    // kMel: the first bin of a filter and the one past its last, [num_mels, 2]
  void* out;            // [lines, num_frames, bins or num_mels]; transposed: [.., num_mels, ..]
  float* maxima;        // kWhisper: of a block, [lines, blocks]
  long long n;
  long long lines;
  long long num_frames;
  int hop;
  int padding;  // samples ahead of the first
  int num_mels;
  int transposed;  // kMel
  float floor;     // kLn: added; kLog10: the least
  AudioPad pad;
  SpectrumOutput output;
  SpectrumLog log;
};
static_assert(sizeof(SpectrogramArgs) == 104 && __is_trivially_copyable(SpectrogramArgs));

struct WhisperScaleArgs {
  float* x;             // [lines, count]
  const float* maxima;  // [lines, blocks]
  long long count;
  long long lines;
  long long blocks;
};
static_assert(sizeof(WhisperScaleArgs) == 40 && __is_trivially_copyable(WhisperScaleArgs));

// --- recursive filters
// ----------------------------------------------------------------------------

inline constexpr int kBiquadRun = 8;  // samples of a thread
inline constexpr int kBiquadTile = kAudioThreads * kBiquadRun;
inline constexpr int kBiquadLevels = 8;  // 2^8 threads

struct Matrix2 {
  double a, b, c, d;  // rows (a, b) and (c, d)
};

struct BiquadArgs {
  const void* x;        // [lines, n]
  void* out;            // [lines, n]
  const double* state;  // before the first sample, [lines, 2]; nullptr: 0
  double* state_out;    // after the last, [lines, 2]
  double* carries;      // [lines, tiles, 2]: of tiles from 0, then before tiles; nullptr: one tile
  long long n;
  long long lines;
  long long tiles;
  double b0, b1, b2, a1, a2;
  Matrix2 powers[kBiquadLevels + 1];  // the transition over 2^j runs; the last: over a tile
};
static_assert(sizeof(BiquadArgs) == 392 && __is_trivially_copyable(BiquadArgs));

// --- statistics of frames
// -------------------------------------------------------------------------

struct FrameStatsArgs {
  const void* x;      // [lines, n]
  void* mean_square;  // [lines, num_frames]
  void* crossings;    // [lines, num_frames]: of neighbours, those with different signs
  long long n;
  long long lines;
  long long num_frames;
  int frame, hop;
};
static_assert(sizeof(FrameStatsArgs) == 56 && __is_trivially_copyable(FrameStatsArgs));

// --- median filters
// -------------------------------------------------------------------------------

struct MedianArgs {
  const void* x;  // [outer, n, inner]
  void* out;
  long long outer, n, inner;
  int size;  // of the window; element size / 2 in ascending order is taken
  int unused;
};
static_assert(sizeof(MedianArgs) == 48 && __is_trivially_copyable(MedianArgs));

}  // namespace gpk::kernels
