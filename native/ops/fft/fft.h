// Discrete Fourier transforms, with numpy.fft's meaning.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/array.h"
#include "ops/fft/plan.h"

namespace gpk::ops {

enum class FftOp : std::uint8_t { kFft, kIfft, kRfft, kIrfft, kHfft, kIhfft };
enum class FftNorm : std::uint8_t { kBackward, kOrtho, kForward };

// Throw InvalidArgument, starting with `op`, for other words.
FftOp parse_fft_op(std::string_view text, const char* op);
FftNorm parse_fft_norm(std::string_view text, const char* op);

struct FftRequest {
  const char* name = "fft";     // of the public function
  FftOp kind = FftOp::kFft;     // along the last of the axes; fft or ifft along the others
  std::optional<Dims> lengths;  // of the transforms; -1: that of the axis; nullopt: all of these
  std::optional<Dims> axes;     // nullopt: the last ones, or all; may repeat
  FftNorm norm = FftNorm::kBackward;
};

// Computes in float64 where x has that precision, else in float32. Throws InvalidArgument.
Array fft_execute(const Array& x, const FftRequest& request, const std::optional<Array>& out);

// The plan of transforms of n along contiguous rows, as text, for the kind's input of `dtype`.
std::string explain_fft(std::string_view kind, std::int64_t n, DType dtype);

}  // namespace gpk::ops
