#include "ops/audio/statistics.h"

#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "kernels/args/audio.h"
#include "ops/audio/kernels.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/output.h"
#include "ops/submit.h"

namespace gpk::ops {
namespace {

using namespace audio;

constexpr std::int64_t kMaxFrame = std::numeric_limits<int>::max() / 2;

void check_size(std::int64_t value, const char* op, const char* argument) {
  if (value < 1 || value > kMaxFrame)
    throw InvalidArgument(cat(op, ": ", argument, " is ", value, ", expected 1 to ", kMaxFrame));
}

void launch_stats(const Array& x, std::int64_t frame, std::int64_t hop, const FrameStats& result,
                  const char* op) {
  kernels::FrameStatsArgs args{};
  args.x = address(x);
  args.mean_square = address(result.mean_square);
  args.crossings = address(result.crossings);
  args.n = x.shape()[x.ndim() - 1];
  args.lines = num_lines(x, 1);
  args.num_frames = result.mean_square.shape()[x.ndim() - 1];
  args.frame = static_cast<int>(frame);
  args.hop = static_cast<int>(hop);
  launch_plain(AudioKernel::kFrameStats, x.dtype(),
               grid_of_lines(args.num_frames * 32, args.lines, op), &args,
               {&x, &result.mean_square, &result.crossings});
}

void launch_median(const Array& x, std::int64_t size, int axis, const Array& out, const char* op) {
  kernels::MedianArgs args{};
  args.x = address(x);
  args.out = address(out);
  args.outer = args.inner = 1;
  for (int i = 0; i < axis; ++i) args.outer *= x.shape()[i];
  for (int i = axis + 1; i < x.ndim(); ++i) args.inner *= x.shape()[i];
  args.n = x.shape()[axis];
  args.size = static_cast<int>(size);
  launch_plain(AudioKernel::kMedian, x.dtype(), grid_of_lines(x.size(), 1, op), &args, {&x, &out});
}

}  // namespace

FrameStats audio_frame_stats(const Array& x, std::int64_t frame, std::int64_t hop, const char* op) {
  check_real(x, op, "x");
  if (x.ndim() == 0) throw InvalidArgument(cat(op, ": x has no axes, expected at least one"));
  check_size(frame, op, "frame");
  check_size(hop, op, "hop");
  const std::int64_t n = x.shape()[x.ndim() - 1];
  Dims shape = x.shape();
  shape[x.ndim() - 1] = n < frame ? 0 : (n - frame) / hop + 1;
  FrameStats result{Array::empty(shape, x.dtype(), x.device(), op),
                    Array::empty(shape, x.dtype(), x.device(), op)};
  if (result.mean_square.size() == 0) return result;
  if (x.device().is_cuda()) {
    launch_stats(contiguous(x, op), frame, hop, result, op);
  } else {
    run_on_cpu({"audio_frame_stats",
                {x},
                {result.mean_square, result.crossings},
                {{"frame", Scalar(frame)}, {"hop", Scalar(hop)}}});
  }
  return result;
}

Array audio_median(const Array& x, std::int64_t size, std::int64_t axis,
                   const std::optional<Array>& out, const char* op) {
  check_real(x, op, "x");
  const int along = normalize_axis(axis, x.ndim(), op);
  check_size(size, op, "size");
  if (out) check_out(*out, x.shape(), x.dtype(), x.device(), op);
  const bool direct =
      out && out->dtype() == x.dtype() && out->is_contiguous() && !may_overlap(*out, x);
  const Array result = direct ? *out : Array::empty(x.shape(), x.dtype(), x.device(), op);
  if (x.size() > 0) {
    if (x.device().is_cuda()) {
      launch_median(contiguous(x, op), size, along, result, op);
    } else {
      run_on_cpu({"audio_median",
                  {x},
                  {result},
                  {{"size", Scalar(size)}, {"axis", Scalar(std::int64_t{along})}}});
    }
  }
  if (!out) return result;
  if (!direct) copy_into(*out, result, op);
  return *out;
}

}  // namespace gpk::ops
