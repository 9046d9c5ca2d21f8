#include "ops/audio/biquad.h"

#include <cmath>

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
#include "ops/submit.h"

namespace gpk::ops {
namespace {

using namespace audio;
using kernels::BiquadArgs;
using kernels::Matrix2;

Matrix2 squared(const Matrix2& m) {
  return {m.a * m.a + m.b * m.c, m.a * m.b + m.b * m.d, m.c * m.a + m.d * m.c,
          m.c * m.b + m.d * m.d};
}

void check_biquad(const Array& x, const BiquadRequest& request, const Dims& state_shape,
                  const std::optional<Array>& state) {
  const char* const op = request.name;
  check_real(x, op, "x");
  for (const auto& [argument, value] : {std::pair("b0", request.b0),
                                        {"b1", request.b1},
                                        {"b2", request.b2},
                                        {"a1", request.a1},
                                        {"a2", request.a2}})
    if (!std::isfinite(value)) throw InvalidArgument(cat(op, ": ", argument, " is not finite"));
  if (!state) return;
  if (!(state->shape() == state_shape))
    throw InvalidArgument(cat(op, ": state has shape ", to_string(state->shape()), ", expected ",
                              to_string(state_shape)));
  if (state->dtype() != DType::kFloat64)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": state has dtype ", name(state->dtype()), ", expected float64"));
  if (state->device() != x.device())
    throw InvalidArgument(
        cat(op, ": state is on ", to_string(state->device()), ", x on ", to_string(x.device())));
}

// x, state and both results are contiguous and on a GPU.
void launch_biquad(const Array& x, const BiquadRequest& request, const std::optional<Array>& state,
                   const BiquadResult& result) {
  BiquadArgs args{};
  args.x = address(x);
  args.out = address(result.out);
  args.state = address(state);
  args.state_out = address(result.state);
  args.n = x.shape()[x.ndim() - 1];
  args.lines = num_lines(x, 1);
  args.tiles = ceil_div(args.n, std::int64_t{kernels::kBiquadTile});
  args.b0 = request.b0;
  args.b1 = request.b1;
  args.b2 = request.b2;
  args.a1 = request.a1;
  args.a2 = request.a2;
  Matrix2 power{-request.a1, 1.0, -request.a2, 0.0};
  for (int run = 1; run < kernels::kBiquadRun; run *= 2) power = squared(power);
  for (Matrix2& of_level : args.powers) {
    of_level = power;
    power = squared(power);
  }
  std::optional<Array> carries;
  if (args.tiles > 1) {
    carries =
        Array::empty({args.lines * args.tiles * 2}, DType::kFloat64, x.device(), request.name);
    args.carries = address(carries);
  }
  const auto run = [&](AudioKernel which, const LaunchConfig& config) {
    launch_plain(
        which, x.dtype(), config, &args,
        {&x, &result.out, &result.state, state ? &*state : nullptr, carries ? &*carries : nullptr});
  };
  const LaunchConfig tiles =
      grid_of_lines(args.tiles * kernels::kAudioThreads, args.lines, request.name);
  if (carries) {
    run(AudioKernel::kBiquadStates, tiles);
    run(AudioKernel::kBiquadCombine,
        grid_1d(args.lines, kernels::kAudioThreads, kernels::kAudioThreads));
  }
  run(AudioKernel::kBiquadOutputs, tiles);
}

}  // namespace

BiquadResult audio_biquad(const Array& x, const BiquadRequest& request,
                          const std::optional<Array>& state, const std::optional<Array>& out) {
  const char* const op = request.name;
  if (x.ndim() == 0) throw InvalidArgument(cat(op, ": x has no axes, expected at least one"));
  Dims state_shape = x.shape();
  state_shape[x.ndim() - 1] = 2;
  check_biquad(x, request, state_shape, state);
  if (out) check_out(*out, x.shape(), x.dtype(), x.device(), op);
  // A tile is read before it is written, so that out may be x itself.
  const bool direct = out && out->dtype() == x.dtype() && out->is_contiguous() &&
                      (same_place(*out, x) || !may_overlap(*out, x)) &&
                      (!state || !may_overlap(*out, *state));
  BiquadResult result{direct ? *out : Array::empty(x.shape(), x.dtype(), x.device(), op),
                      Array::empty(state_shape, DType::kFloat64, x.device(), op)};
  if (x.shape()[x.ndim() - 1] == 0) {
    if (state) {
      copy_into(result.state, *state, op);
    } else if (result.state.size() > 0) {
      fill(result.state, Scalar(0.0), op);
    }
  } else if (x.size() > 0 && x.device().is_cuda()) {
    launch_biquad(contiguous(x, op), request,
                  state ? std::optional(contiguous(*state, op)) : std::nullopt, result);
  } else if (x.size() > 0) {
    run_on_cpu({"audio_biquad",
                {x, cpu_optional(state)},
                {result.out, result.state},
                {{"b0", Scalar(request.b0)},
                 {"b1", Scalar(request.b1)},
                 {"b2", Scalar(request.b2)},
                 {"a1", Scalar(request.a1)},
                 {"a2", Scalar(request.a2)}}});
  }
  if (out && !direct) copy_into(*out, result.out, op);
  if (out) result.out = *out;
  return result;
}

}  // namespace gpk::ops
