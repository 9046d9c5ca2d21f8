// Every kernel of the family by number, and what its launchers share.
#pragma once

#include <cstdint>
#include <vector>

#include "core/array.h"
#include "core/launch.h"
#include "jit/builtin.h"

namespace gpk::ops::audio {

enum class AudioKernel : std::uint8_t {
  kResample,
  kOverlapAdd,
  kSpectrogram,
  kWhisperScale,
  kBiquadStates,
  kBiquadCombine,
  kBiquadOutputs,
  kFrameStats,
  kMedian,
};

inline constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64};

// Throws InvalidArgument unless `array` is float32 or float64.
void check_real(const Array& array, const char* op, const char* argument);
// Throws unless `array` has the dtype and the device of `x`.
void check_beside(const Array& array, const Array& x, const char* op, const char* argument);

// A kernel of "audio/<file>" with the dtype as its template argument, in the PTX bundle.
jit::KernelSpec plain_spec(AudioKernel which, DType dtype);
// `params` is the one argument.
void launch_plain(AudioKernel which, DType dtype, const LaunchConfig& config, void* params,
                  std::initializer_list<const Array*> arrays);

// Elements along all axes but the last `kept`.
std::int64_t num_lines(const Array& x, int kept);
// A grid of `items` in blocks of kAudioThreads, and the lines.
LaunchConfig grid_of_lines(std::int64_t items, std::int64_t lines, const char* op);

void enumerate_spectrograms(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::audio
