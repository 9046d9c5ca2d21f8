// WAV files: the header. Nothing in it is trusted; every size is checked against the bytes there
// are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpk::speech {

enum class WavEncoding : std::uint8_t { kPcm, kFloat };
const char* name(WavEncoding encoding);  // "pcm", "float"

struct WavHeader {
  WavEncoding encoding = WavEncoding::kPcm;
  int channels = 1;                  // 1 to 65535
  std::int64_t sample_rate = 16000;  // at least 1
  int bits = 16;                     // of a sample: 8 (unsigned), 16, 24, 32; float: 32, 64
  std::size_t offset = 0;            // of the first sample in the file
  std::int64_t num_frames = 0;       // samples of a channel; all of them are in the file
};

// RIFF with WAVE_FORMAT_PCM, IEEE_FLOAT or EXTENSIBLE of these. Unknown chunks are skipped. A data
// chunk of size 0xFFFFFFFF goes to the end of the file: its writer did not know its size. Throws
// InvalidArgument, starting with "wav: ", for all else.
WavHeader parse_wav(std::span<const std::byte> file);

}  // namespace gpk::speech
