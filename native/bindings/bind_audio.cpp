// Audio ops and WAV files.
#include "base/error.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/results.h"
#include "ops/audio/biquad.h"
#include "ops/audio/overlap_add.h"
#include "ops/audio/resample.h"
#include "ops/audio/spectrogram.h"
#include "ops/audio/statistics.h"
#include "speech/wav.h"

namespace gpk::bind {
namespace {

// (encoding, channels, sample_rate, bits, offset, frames)
py::tuple parse_wav(const py::buffer& bytes) {
  const py::buffer_info view = bytes.request();
  if (view.itemsize != 1 || view.ndim != 1 || (view.size > 0 && view.strides[0] != 1))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          "wav_header: data is not a contiguous buffer of bytes");
  const speech::WavHeader header = speech::parse_wav(
      {static_cast<const std::byte*>(view.ptr), static_cast<std::size_t>(view.size)});
  return py::make_tuple(speech::name(header.encoding), header.channels, header.sample_rate,
                        header.bits, header.offset, header.num_frames);
}

}  // namespace

void bind_audio(py::module_& m) {
  define(m, "audio_resample", [](const Arguments& args) {
    const std::string name = args.text(0);
    const ops::ResampleRequest request{name.c_str(),    args.integer(3), args.integer(4),
                                       args.integer(5), args.integer(6), args.flag(7)};
    return run_into(args, 8, [&](const std::optional<Array>& out) {
      return ops::audio_resample(args.array(1), args.array(2), request, out);
    });
  });
  define(m, "audio_overlap_add", [](const Arguments& args) {
    const std::string name = args.text(0);
    const ops::OverlapAddRequest request{name.c_str(), args.integer(3), args.integer(4),
                                         args.integer(5)};
    const std::optional<Array> window = args.optional_array(2);
    return run_into(args, 6, [&](const std::optional<Array>& out) {
      return ops::audio_overlap_add(args.array(1), window, request, out);
    });
  });
  define(m, "audio_spectrogram", [](const Arguments& args) {
    const std::string name = args.text(0);
    ops::SpectrogramRequest request;
    request.name = name.c_str();
    request.hop = args.integer(3);
    request.padding = args.integer(4);
    request.pad = ops::parse_audio_pad(args.text(5), request.name);
    request.frames = args.integer(6);
    request.output = ops::parse_spectrum_output(args.text(7), request.name);
    request.log = ops::parse_spectrum_log(args.text(10), request.name);
    request.floor = args.number(11);
    request.transposed = args.flag(12);
    std::optional<ops::MelBank> bank;
    if (!args.is_none(8)) bank = {args.array(8), args.array(9)};
    return run_into(args, 13, [&](const std::optional<Array>& out) {
      return ops::audio_spectrogram(args.array(1), args.array(2), bank, request, out);
    });
  });
  define(m, "audio_biquad", [](const Arguments& args) {
    const std::string name = args.text(0);
    const Array& x = args.array(1);
    const ops::BiquadRequest request{name.c_str(),   args.number(2), args.number(3),
                                     args.number(4), args.number(5), args.number(6)};
    const std::optional<Array> state = args.optional_array(7);
    const std::optional<Array> out = args.out(8);
    ops::BiquadResult result = [&] {
      const BrieflyWithoutGil released;
      return ops::audio_biquad(x, request, state, out);
    }();
    return py::object(py::make_tuple(given_object(args, 8, std::move(result.out)),
                                     array_result(std::move(result.state))));
  });
  define(m, "audio_frame_stats", [](const Arguments& args) {
    const std::string name = args.text(0);
    const Array& x = args.array(1);
    const std::int64_t frame = args.integer(2);
    const std::int64_t hop = args.integer(3);
    ops::FrameStats result = [&] {
      const BrieflyWithoutGil released;
      return ops::audio_frame_stats(x, frame, hop, name.c_str());
    }();
    return py::object(py::make_tuple(array_result(std::move(result.mean_square)),
                                     array_result(std::move(result.crossings))));
  });
  define(m, "audio_median", [](const Arguments& args) {
    const std::string name = args.text(0);
    const std::int64_t size = args.integer(2);
    const std::int64_t axis = args.integer(3);
    return run_into(args, 4, [&](const std::optional<Array>& out) {
      return ops::audio_median(args.array(1), size, axis, out, name.c_str());
    });
  });
  m.def("audio_fused_lengths", &ops::audio::fused_lengths,
        "Lengths of frames that audio_spectrogram has kernels for.");
  m.def(
      "audio_is_fused",
      [](std::int64_t n_fft, const Array& like) {
        return ops::audio::is_fused(n_fft, like.dtype(), like.device());
      },
      py::arg("n_fft"), py::arg("like"),
      "Whether audio_spectrogram takes frames of n_fft of arrays like this one.");
  m.def("wav_header", &parse_wav, py::arg("data"),
        "(encoding, channels, sample_rate, bits, offset, frames) of a WAV file's bytes.");
}

}  // namespace gpk::bind
