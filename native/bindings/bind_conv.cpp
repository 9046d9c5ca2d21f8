// Convolutions.
#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/results.h"
#include "ops/conv/conv.h"

namespace gpk::bind {
namespace {

ops::conv::Activation activation_argument(const Arguments& args, int i) {
  if (args.is_none(i)) return ops::conv::Activation::kNone;
  const std::string name = args.text(i);
  const auto activation = ops::conv::activation_of(name);
  if (!activation)
    throw InvalidArgument(cat(args.op(), ": activation is '", name,
                              "', expected None, 'none', 'relu', 'gelu', 'gelu_erf', 'silu' or "
                              "'tanh'"));
  return *activation;
}

using Convolve = Array (*)(const Array&, const Array&, const ops::ConvOptions&,
                           const std::optional<Array>&);

void define_conv(py::module_& m, const char* name, Convolve convolve) {
  define(m, name, [convolve](const Arguments& args) {
    const Array& x = args.array(0);
    const Array& w = args.array(1);
    const ops::ConvOptions options{args.optional_array(2),
                                   args.optional_array(8),
                                   args.integers(3),
                                   args.integers(4),
                                   args.integers(5),
                                   args.integer(6),
                                   activation_argument(args, 7)};
    return run_into(args, 9, [&](const auto& out) { return convolve(x, w, options, out); });
  });
}

}  // namespace

void bind_conv(py::module_& m) {
  define_conv(m, "conv1d", ops::conv1d);
  define_conv(m, "conv2d", ops::conv2d);
  define(m, "conv_transpose1d", [](const Arguments& args) {
    const Array& x = args.array(0);
    const Array& w = args.array(1);
    const ops::ConvOptions options{args.optional_array(2),
                                   args.optional_array(9),
                                   args.integers(3),
                                   args.integers(4),
                                   args.integers(7),
                                   args.integer(6),
                                   activation_argument(args, 8),
                                   args.integer(5)};
    return run_into(args, 10,
                    [&](const auto& out) { return ops::conv_transpose1d(x, w, options, out); });
  });
  define(m, "causal_conv1d", [](const Arguments& args) {
    const Array& x = args.array(0);
    const Array& w = args.array(1);
    const std::optional<Array> bias = args.optional_array(2);
    const std::optional<Array> state = args.optional_array(3);
    const ops::conv::Activation activation = activation_argument(args, 4);
    const std::optional<Array> out = args.out(5);
    const std::optional<Array> state_out = args.out(6);
    ops::CausalConv result = [&] {
      const BrieflyWithoutGil released;
      return ops::causal_conv1d(x, w, bias, state, activation, out, state_out);
    }();
    return py::make_tuple(given_object(args, 5, std::move(result.out)),
                          given_object(args, 6, std::move(result.state)));
  });
}

}  // namespace gpk::bind
