#include "ops/audio/spectrogram.h"

#include <algorithm>
#include <limits>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/audio/kernels.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/fft/shape.h"
#include "ops/kernel_table.h"
#include "ops/output.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using namespace audio;

constexpr const char* kPads[] = {"constant", "edge", "reflect"};
constexpr const char* kOutputs[] = {"complex", "power", "magnitude", "mel"};
constexpr const char* kLogs[] = {"", "ln", "log10", "whisper"};
constexpr std::int64_t kMaxSamples = std::numeric_limits<int>::max() / 2;
constexpr std::int64_t kMaxLines = 65535;
constexpr int kScaleBlocks = 64;  // of a line: enough for all SMs at a few lines

template <class T, std::size_t kCount>
T parse(std::string_view text, const char* const (&words)[kCount], const char* op,
        const char* argument) {
  for (std::size_t i = 0; i < kCount; ++i)
    if (text == words[i]) return static_cast<T>(i);
  std::string known;
  for (const char* const word : words) known = cat(known, known.empty() ? "'" : ", '", word, "'");
  throw InvalidArgument(cat(op, ": ", argument, " is '", text, "', expected one of ", known));
}

std::uint64_t pack(int n_fft) { return plan::KeyBuilder().field("n_fft", n_fft, 16).key(); }

jit::KernelSpec spectrogram_spec(int n_fft) {
  const fft::FftShape shape = plan_spectrogram(n_fft).shape;
  jit::KernelSpec spec;
  spec.file = "audio/spectrogram.cuh";
  spec.op = "audio_spectrogram";
  spec.kernel = static_cast<std::uint8_t>(AudioKernel::kSpectrogram);
  spec.variant = pack(n_fft);
  spec.bundled = false;
  spec.expression =
      cat("gpk::audio_spectrogram<", shape.threads_each, ", ", shape.group, ", ", shape.pitch);
  for (int s = 0; s < shape.num_stages; ++s)
    spec.expression = cat(spec.expression, ", ", shape.radices[static_cast<std::size_t>(s)]);
  spec.expression += ">";
  return spec;
}

jit::KernelSpec scale_spec() {
  jit::KernelSpec spec;
  spec.file = "audio/spectrogram.cuh";
  spec.op = "audio_spectrogram";
  spec.kernel = static_cast<std::uint8_t>(AudioKernel::kWhisperScale);
  spec.bundled = false;
  spec.expression = "gpk::audio_whisper_scale";
  return spec;
}

void check_bank(const MelBank& bank, const Array& x, std::int64_t bins, const char* op) {
  check_beside(bank.weights, x, op, "bank");
  if (bank.weights.ndim() != 2 || bank.weights.shape()[1] != bins ||
      bank.weights.shape()[0] > kMaxSamples)
    throw InvalidArgument(cat(op, ": bank has shape ", to_string(bank.weights.shape()),
                              ", expected (n_mels, ", bins, ")"));
  if (bank.ranges.dtype() != DType::kInt32 || bank.ranges.device() != x.device() ||
      !(bank.ranges.shape() == Dims{bank.weights.shape()[0], 2}))
    throw InvalidArgument(cat(op, ": ranges has dtype ", name(bank.ranges.dtype()), " and shape ",
                              to_string(bank.ranges.shape()), ", expected int32 (",
                              bank.weights.shape()[0], ", 2) beside x"));
}

void check_spectrogram(const Array& x, const Array& window, const std::optional<MelBank>& bank,
                       const SpectrogramRequest& request) {
  const char* const op = request.name;
  if (x.dtype() != DType::kFloat32)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": x has dtype ", name(x.dtype()), ", expected float32"));
  if (x.ndim() == 0) throw InvalidArgument(cat(op, ": x has no axes, expected at least one"));
  check_beside(window, x, op, "window");
  if (window.ndim() != 1 ||
      !std::binary_search(fused_lengths().begin(), fused_lengths().end(),
                          static_cast<int>(std::min<std::int64_t>(window.size(), kMaxSamples))))
    throw InvalidArgument(cat(op, ": window has shape ", to_string(window.shape()),
                              ", expected one axis of a length of audio_fused_lengths()"));
  const std::int64_t n_fft = window.size();
  for (const auto& [argument, value, least] : {std::tuple("hop", request.hop, 1),
                                               {"padding", request.padding, 0},
                                               {"frames", request.frames, 0}})
    if (value < least || value > kMaxSamples)
      throw InvalidArgument(
          cat(op, ": ", argument, " is ", value, ", expected ", least, " to ", kMaxSamples));
  const std::int64_t n = x.shape()[x.ndim() - 1];
  if (request.frames > 0 && (request.frames - 1) * request.hop + n_fft > n + 2 * request.padding)
    throw InvalidArgument(cat(op, ": frames is ", request.frames, ", expected as many as fit ", n,
                              " samples and ", request.padding, " on both sides"));
  if (request.frames > 0 && n == 0 && request.pad != AudioPad::kConstant)
    throw InvalidArgument(cat(op, ": x has 0 samples, expected at least 1 to pad with"));
  const bool mel = request.output == SpectrumOutput::kMel;
  if (mel != bank.has_value())
    throw InvalidArgument(cat(op, ": expected bank and ranges for output mel, and only there"));
  if (bank) check_bank(*bank, x, n_fft / 2 + 1, op);
  if (!mel && (request.log != SpectrumLog::kNone || request.transposed))
    throw InvalidArgument(cat(op, ": log and transposed are for output mel alone"));
}

Dims shape_of(const Array& x, const Array& window, const std::optional<MelBank>& bank,
              const SpectrogramRequest& request) {
  Dims shape = Dims::filled(x.ndim() + 1, 0);
  for (int axis = 0; axis + 1 < x.ndim(); ++axis) shape[axis] = x.shape()[axis];
  const std::int64_t values = bank ? bank->weights.shape()[0] : window.size() / 2 + 1;
  shape[x.ndim() - 1] = request.transposed ? values : request.frames;
  shape[x.ndim()] = request.transposed ? request.frames : values;
  return shape;
}

// On a GPU, all contiguous, with elements.
void launch_spectrogram(const Array& x, const Array& window, const std::optional<MelBank>& bank,
                        const SpectrogramRequest& request, const Array& out) {
  const int n_fft = static_cast<int>(window.size());
  const SpectrogramPlan plan = plan_spectrogram(n_fft);
  kernels::SpectrogramArgs args{};
  args.x = address(x);
  args.window = address(window);
  args.out = address(out);
  args.n = x.shape()[x.ndim() - 1];
  args.lines = num_lines(x, 1);
  args.num_frames = request.frames;
  args.hop = static_cast<int>(request.hop);
  args.padding = static_cast<int>(request.padding);
  args.transposed = request.transposed ? 1 : 0;
  args.floor = static_cast<float>(request.floor);
  args.pad = request.pad;
  args.output = request.output;
  args.log = request.log;
  if (bank) {
    args.bank = address(bank->weights);
    args.ranges = address(bank->ranges);
    args.num_mels = static_cast<int>(bank->weights.shape()[0]);
  }
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(ceil_div(args.num_frames, plan.shape.group));
  config.grid[1] = static_cast<unsigned>(std::min<std::int64_t>(args.lines, kMaxLines));
  config.block[0] = static_cast<unsigned>(plan.shape.threads);
  config.shared_bytes = plan.shared_bytes;
  const bool whisper = request.log == SpectrumLog::kWhisper;
  std::optional<Array> maxima;
  if (whisper) {
    maxima = Array::empty({args.lines, config.grid[0]}, DType::kFloat32, x.device(), request.name);
    args.maxima = address(maxima);
  }
  Context& context = Context::get(x.device().index);
  const Kernel& spectra = kernel(
      context, {Family::audio, static_cast<std::uint8_t>(AudioKernel::kSpectrogram), pack(n_fft)},
      [&] { return spectrogram_spec(n_fft); });
  void* params[] = {&args};
  submit(spectra, config,
         {&x, &window, &out, bank ? &bank->weights : nullptr, bank ? &bank->ranges : nullptr,
          maxima ? &*maxima : nullptr},
         params);
  if (!whisper) return;
  kernels::WhisperScaleArgs scale{};
  scale.x = address(out);
  scale.maxima = address(maxima);
  scale.count = args.num_frames * args.num_mels;
  scale.lines = args.lines;
  scale.blocks = config.grid[0];
  LaunchConfig scaling;
  scaling.grid[0] = kScaleBlocks;
  scaling.grid[1] = config.grid[1];
  scaling.block[0] = kernels::kAudioThreads;
  const Kernel& code =
      kernel(context, {Family::audio, static_cast<std::uint8_t>(AudioKernel::kWhisperScale), 0},
             [] { return scale_spec(); });
  void* scale_params[] = {&scale};
  submit(code, scaling, {&out, &*maxima}, scale_params);
}

void run_on_host(const Array& x, const Array& window, const std::optional<MelBank>& bank,
                 const SpectrogramRequest& request, const Array& result) {
  run_on_cpu({"audio_spectrogram",
              {x, window, bank ? CpuArg(bank->weights) : CpuArg(std::monostate{})},
              {result},
              {{"hop", Scalar(request.hop)},
               {"padding", Scalar(request.padding)},
               {"pad_mode", std::string(kPads[static_cast<int>(request.pad)])},
               {"output", std::string(kOutputs[static_cast<int>(request.output)])},
               {"log", std::string(kLogs[static_cast<int>(request.log)])},
               {"floor", Scalar(request.floor)},
               {"transposed", Scalar(request.transposed)}}});
}

}  // namespace

AudioPad parse_audio_pad(std::string_view text, const char* op) {
  return parse<AudioPad>(text, kPads, op, "pad_mode");
}
SpectrumOutput parse_spectrum_output(std::string_view text, const char* op) {
  return parse<SpectrumOutput>(text, kOutputs, op, "output");
}
SpectrumLog parse_spectrum_log(std::string_view text, const char* op) {
  return parse<SpectrumLog>(text, kLogs, op, "log");
}

Array audio_spectrogram(const Array& x, const Array& window, const std::optional<MelBank>& bank,
                        const SpectrogramRequest& request, const std::optional<Array>& out) {
  const char* const op = request.name;
  check_spectrogram(x, window, bank, request);
  const Dims shape = shape_of(x, window, bank, request);
  const DType dtype =
      request.output == SpectrumOutput::kComplex ? DType::kComplex64 : DType::kFloat32;
  num_elements(shape, op);
  if (out) check_out(*out, shape, dtype, x.device(), op);
  const bool direct = out && out->dtype() == dtype && out->is_contiguous() &&
                      !may_overlap(*out, x) && !may_overlap(*out, window);
  const Array result = direct ? *out : Array::empty(shape, dtype, x.device(), op);
  if (result.size() > 0) {
    if (x.device().is_cuda()) {
      std::optional<MelBank> whole;
      if (bank) whole = {contiguous(bank->weights, op), contiguous(bank->ranges, op)};
      launch_spectrogram(contiguous(x, op), contiguous(window, op), whole, request, result);
    } else {
      run_on_host(x, window, bank, request, result);
    }
  }
  if (!out) return result;
  if (!direct) copy_into(*out, result, op);
  return *out;
}

namespace audio {

const std::vector<int>& fused_lengths() {
  static const std::vector<int> lengths = {200, 256, 320, 400,  480,  512,
                                           640, 800, 960, 1024, 2048, 4096};
  return lengths;
}

bool is_fused(std::int64_t n_fft, DType dtype, Device device) {
  const std::vector<int>& known = fused_lengths();
  if (dtype != DType::kFloat32 || n_fft > known.back()) return false;
  if (!std::binary_search(known.begin(), known.end(), static_cast<int>(n_fft))) return false;
  return !device.is_cuda() || jit::jit_available();
}

SpectrogramPlan plan_spectrogram(int n_fft) {
  SpectrogramPlan plan;
  const int n = n_fft / 2;
  plan.shape = fft::block_shape(n, false, kernels::FftSide::kRow, kernels::FftSide::kRow);
  const auto group = static_cast<std::size_t>(plan.shape.group);
  const auto points = static_cast<std::size_t>(n);
  const std::size_t power_pitch = points + 1 + points % 2;
  plan.shared_bytes = plan.shape.shared_bytes + points * 8 + group * power_pitch * 4;
  return plan;
}

std::string to_string(const SpectrogramPlan& plan) {
  std::string radices;
  for (int s = 0; s < plan.shape.num_stages; ++s)
    radices = cat(radices, s > 0 ? "x" : "", plan.shape.radices[static_cast<std::size_t>(s)]);
  return cat("spectrogram(n_fft=", 2 * plan.shape.n, "): ", radices, ", ", plan.shape.group,
             " frames a block of ", plan.shape.threads, " threads, ", plan.shared_bytes, " bytes");
}

void enumerate_spectrograms(std::vector<jit::KernelSpec>& specs) {
  specs.push_back(scale_spec());
  for (const int n_fft : fused_lengths()) specs.push_back(spectrogram_spec(n_fft));
}

}  // namespace audio
}  // namespace gpk::ops
