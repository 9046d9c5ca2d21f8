#include "ops/audio/overlap_add.h"

#include <limits>

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

constexpr std::int64_t kMaxFrame = std::numeric_limits<int>::max() / 2;
constexpr std::int64_t kMaxSamples = std::int64_t{1} << 40;

void check_overlap_add(const Array& frames, const std::optional<Array>& window,
                       const OverlapAddRequest& request) {
  const char* const op = request.name;
  check_real(frames, op, "frames");
  if (frames.ndim() < 2 || frames.shape()[frames.ndim() - 1] > kMaxFrame)
    throw InvalidArgument(
        cat(op, ": frames has shape ", to_string(frames.shape()), ", expected (..., frames, n)"));
  const std::int64_t n = frames.shape()[frames.ndim() - 1];
  if (window) {
    check_beside(*window, frames, op, "window");
    if (!(window->shape() == Dims{n}))
      throw InvalidArgument(
          cat(op, ": window has shape ", to_string(window->shape()), ", expected (", n, ",)"));
  }
  if (request.hop < 1 || request.hop > kMaxFrame)
    throw InvalidArgument(cat(op, ": hop is ", request.hop, ", expected 1 to ", kMaxFrame));
  for (const auto& [argument, value] :
       {std::pair("start", request.start), {"length", request.length}})
    if (value < 0 || value > kMaxSamples)
      throw InvalidArgument(cat(op, ": ", argument, " is ", value, ", expected 0 to 2**40"));
}

void launch_overlap_add(const Array& frames, const std::optional<Array>& window,
                        const OverlapAddRequest& request, const Array& out) {
  kernels::OverlapAddArgs args{};
  args.frames = address(frames);
  args.window = address(window);
  args.out = address(out);
  args.num_frames = frames.shape()[frames.ndim() - 2];
  args.start = request.start;
  args.count = request.length;
  args.lines = num_lines(frames, 2);
  args.n = static_cast<int>(frames.shape()[frames.ndim() - 1]);
  args.hop = static_cast<int>(request.hop);
  launch_plain(AudioKernel::kOverlapAdd, frames.dtype(),
               grid_of_lines(args.count, args.lines, request.name), &args,
               {&frames, window ? &*window : nullptr, &out});
}

}  // namespace

Array audio_overlap_add(const Array& frames, const std::optional<Array>& window,
                        const OverlapAddRequest& request, const std::optional<Array>& out) {
  const char* const op = request.name;
  check_overlap_add(frames, window, request);
  Dims shape = Dims::filled(frames.ndim() - 1, request.length);
  for (int axis = 0; axis < frames.ndim() - 2; ++axis) shape[axis] = frames.shape()[axis];
  if (out) check_out(*out, shape, frames.dtype(), frames.device(), op);
  const bool direct = out && out->dtype() == frames.dtype() && out->is_contiguous() &&
                      !may_overlap(*out, frames) && (!window || !may_overlap(*out, *window));
  const Array result = direct ? *out : Array::empty(shape, frames.dtype(), frames.device(), op);
  if (result.size() > 0) {
    if (frames.size() == 0) {
      fill(result, Scalar(0.0), op);
    } else if (frames.device().is_cuda()) {
      launch_overlap_add(contiguous(frames, op),
                         window ? std::optional(contiguous(*window, op)) : std::nullopt, request,
                         result);
    } else {
      run_on_cpu({"audio_overlap_add",
                  {frames, cpu_optional(window)},
                  {result},
                  {{"hop", Scalar(request.hop)}, {"start", Scalar(request.start)}}});
    }
  }
  if (!out) return result;
  if (!direct) copy_into(*out, result, op);
  return *out;
}

}  // namespace gpk::ops
