#include "ops/audio/kernels.h"

#include <algorithm>
#include <limits>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "kernels/args/audio.h"
#include "ops/checks.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace audio {
namespace {

constexpr std::int64_t kMaxLines = 65535;  // of a grid; kernels walk the rest

struct PlainKernel {
  AudioKernel which;
  const char* name;
  const char* file;
};
constexpr PlainKernel kPlainKernels[] = {
    {AudioKernel::kResample, "audio_resample", "audio/resample.cuh"},
    {AudioKernel::kOverlapAdd, "audio_overlap_add", "audio/overlap_add.cuh"},
    {AudioKernel::kBiquadStates, "audio_biquad_states", "audio/biquad.cuh"},
    {AudioKernel::kBiquadCombine, "audio_biquad_combine", "audio/biquad.cuh"},
    {AudioKernel::kBiquadOutputs, "audio_biquad_outputs", "audio/biquad.cuh"},
    {AudioKernel::kFrameStats, "audio_frame_stats", "audio/frame_stats.cuh"},
    {AudioKernel::kMedian, "audio_median", "audio/median.cuh"},
};

std::uint64_t pack(DType dtype) {
  return plan::KeyBuilder().field("dtype", dtype, plan::kDTypeBits).key();
}

}  // namespace

void check_real(const Array& array, const char* op, const char* argument) {
  if (array.dtype() == DType::kFloat32 || array.dtype() == DType::kFloat64) return;
  throw InvalidArgument(
      InvalidArgument::Kind::kType,
      cat(op, ": ", argument, " has dtype ", name(array.dtype()), ", expected float32 or float64"));
}

void check_beside(const Array& array, const Array& x, const char* op, const char* argument) {
  check_same_dtype(array, argument, x, "x", op);
  check_device(array, argument, x.device(), "x", op);
}

jit::KernelSpec plain_spec(AudioKernel which, DType dtype) {
  const auto* const found =
      std::find_if(std::begin(kPlainKernels), std::end(kPlainKernels),
                   [&](const PlainKernel& kernel) { return kernel.which == which; });
  jit::KernelSpec spec;
  spec.file = found->file;
  spec.op = found->name;
  spec.kernel = static_cast<std::uint8_t>(which);
  spec.variant = pack(dtype);
  spec.expression = cat("gpk::", found->name, "<", info(dtype).cuda_name, ">");
  return spec;
}

void launch_plain(AudioKernel which, DType dtype, const LaunchConfig& config, void* params,
                  std::initializer_list<const Array*> arrays) {
  const Array& some = **arrays.begin();
  const Kernel& code = kernel(Context::get(some.device().index),
                              {Family::audio, static_cast<std::uint8_t>(which), pack(dtype)},
                              [&] { return plain_spec(which, dtype); });
  void* list[] = {params};
  submit(code, config, arrays, list);
}

std::int64_t num_lines(const Array& x, int kept) {
  std::int64_t lines = 1;
  for (int axis = 0; axis < x.ndim() - kept; ++axis) lines *= x.shape()[axis];
  return lines;
}

LaunchConfig grid_of_lines(std::int64_t items, std::int64_t lines, const char* op) {
  const std::int64_t blocks = ceil_div(items, std::int64_t{kernels::kAudioThreads});
  if (blocks > std::numeric_limits<int>::max())
    throw InvalidArgument(
        cat(op, ": the result has ", items, " elements a line, expected up to ",
            std::int64_t{std::numeric_limits<int>::max()} * kernels::kAudioThreads));
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(blocks);
  config.grid[1] = static_cast<unsigned>(std::min(lines, kMaxLines));
  config.block[0] = kernels::kAudioThreads;
  return config;
}

}  // namespace audio

void enumerate_audio(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : audio::kDTypes)
    for (const auto& kernel : audio::kPlainKernels)
      specs.push_back(audio::plain_spec(kernel.which, dtype));
  audio::enumerate_spectrograms(specs);
}

}  // namespace gpk::ops
