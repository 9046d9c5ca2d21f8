#include "ops/audio/resample.h"

#include <limits>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "kernels/args/audio.h"
#include "ops/audio/kernels.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/output.h"

namespace gpk::ops {
namespace {

using namespace audio;

constexpr std::int64_t kMaxRate = std::numeric_limits<int>::max() / 2;

void check_resample(const Array& x, const Array& taps, const ResampleRequest& request) {
  const char* const op = request.name;
  check_real(x, op, "x");
  check_beside(taps, x, op, "taps");
  if (x.ndim() == 0) throw InvalidArgument(cat(op, ": x has no axes, expected at least one"));
  for (const auto& [argument, rate] : {std::pair("up", request.up), {"down", request.down}})
    if (rate < 1 || rate > kMaxRate)
      throw InvalidArgument(cat(op, ": ", argument, " is ", rate, ", expected 1 to ", kMaxRate));
  if (taps.ndim() != 2 || taps.shape()[1] != request.up || taps.shape()[0] < 1 ||
      taps.shape()[0] > kMaxRate)
    throw InvalidArgument(cat(op, ": taps has shape ", to_string(taps.shape()),
                              ", expected (number of taps, ", request.up, ")"));
  if (request.before < 0 || request.before > kMaxRate)
    throw InvalidArgument(cat(op, ": before is ", request.before, ", expected 0 to ", kMaxRate));
  // So that positions in the input fit 64 bits.
  if (request.length < 0 || request.length > std::int64_t{1} << 32)
    throw InvalidArgument(cat(op, ": length is ", request.length, ", expected 0 to 2**32"));
}

void launch_resample(const Array& x, const Array& taps, const ResampleRequest& request,
                     const Array& out) {
  kernels::ResampleArgs args{};
  args.x = address(x);
  args.out = address(out);
  args.taps = address(taps);
  args.n = x.shape()[x.ndim() - 1];
  args.count = request.length;
  args.lines = num_lines(x, 1);
  args.up = static_cast<int>(request.up);
  args.down = static_cast<int>(request.down);
  args.num_taps = static_cast<int>(taps.shape()[0]);
  args.before = static_cast<int>(request.before);
  args.edge = request.edge ? 1 : 0;
  const std::int64_t frames = ceil_div(request.length, request.up);
  const std::int64_t threads =
      ceil_div(frames, std::int64_t{kernels::kResampleFrames}) * request.up;
  launch_plain(AudioKernel::kResample, x.dtype(), grid_of_lines(threads, args.lines, request.name),
               &args, {&x, &taps, &out});
}

}  // namespace

Array audio_resample(const Array& x, const Array& taps, const ResampleRequest& request,
                     const std::optional<Array>& out) {
  const char* const op = request.name;
  check_resample(x, taps, request);
  Dims shape = x.shape();
  shape[x.ndim() - 1] = request.length;
  if (out) check_out(*out, shape, x.dtype(), x.device(), op);
  const bool direct = out && out->dtype() == x.dtype() && out->is_contiguous() &&
                      !may_overlap(*out, x) && !may_overlap(*out, taps);
  const Array result = direct ? *out : Array::empty(shape, x.dtype(), x.device(), op);
  if (result.size() > 0) {
    if (x.shape()[x.ndim() - 1] == 0) {
      fill(result, Scalar(0.0), op);
    } else if (x.device().is_cuda()) {
      launch_resample(contiguous(x, op), contiguous(taps, op), request, result);
    } else {
      run_on_cpu({"audio_resample",
                  {x, taps},
                  {result},
                  {{"up", Scalar(request.up)},
                   {"down", Scalar(request.down)},
                   {"before", Scalar(request.before)},
                   {"edge", Scalar(request.edge)}}});
    }
  }
  if (!out) return result;
  if (!direct) copy_into(*out, result, op);
  return *out;
}

}  // namespace gpk::ops
