// Recurrent layers and scans.
#include "bindings/bind.h"
#include "bindings/results.h"
#include "ops/recurrent/layer.h"
#include "ops/recurrent/selective_scan.h"

namespace gpk::bind {
namespace {

// Four arguments from `first` on.
ops::RecurrentWeights weights(const Arguments& args, int first) {
  return {args.array(first), args.array(first + 1), args.optional_array(first + 2),
          args.optional_array(first + 3)};
}

// (out, h_n) or (out, h_n, c_n); argument `out_index` is out=.
py::object run_layer(const Arguments& args, const ops::RecurrentLayer& layer,
                     const std::optional<Array>& h0, const std::optional<Array>& c0,
                     int out_index) {
  const Array& x = args.array(0);
  const std::optional<Array> out = args.out(out_index);
  ops::RecurrentResult result = [&] {
    const BrieflyWithoutGil released;
    return ops::run_recurrent(layer, x, h0, c0, out, args.op());
  }();
  const py::object y = given_object(args, out_index, std::move(result.out));
  const py::object h_n = array_result(std::move(result.h_n));
  if (!result.c_n) return py::make_tuple(y, h_n);
  return py::make_tuple(y, h_n, array_result(std::move(*result.c_n)));
}

}  // namespace

void bind_recurrent(py::module_& m) {
  using ops::RecurrentCell;
  define(m, "lstm_forward", [](const Arguments& args) {
    return run_layer(args, {RecurrentCell::kLstm, {weights(args, 1)}, args.flag(7)},
                     args.optional_array(5), args.optional_array(6), 8);
  });
  define(m, "lstm_bidirectional", [](const Arguments& args) {
    return run_layer(args, {RecurrentCell::kLstm, {weights(args, 1), weights(args, 5)}},
                     args.optional_array(9), args.optional_array(10), 11);
  });
  define(m, "gru_forward", [](const Arguments& args) {
    return run_layer(args, {RecurrentCell::kGru, {weights(args, 1)}, args.flag(6)},
                     args.optional_array(5), {}, 7);
  });
  define(m, "gru_bidirectional", [](const Arguments& args) {
    return run_layer(args, {RecurrentCell::kGru, {weights(args, 1), weights(args, 5)}},
                     args.optional_array(9), {}, 10);
  });
  define(m, "selective_scan", [](const Arguments& args) {
    const ops::SelectiveScanInputs inputs{
        args.array(0), args.array(1),          args.array(2),          args.array(3),
        args.array(4), args.optional_array(5), args.optional_array(6), args.optional_array(7),
        args.flag(8),  args.optional_array(9)};
    const std::optional<Array> out = args.out(10);
    ops::SelectiveScanResult result = [&] {
      const BrieflyWithoutGil released;
      return ops::selective_scan(inputs, out);
    }();
    return py::make_tuple(given_object(args, 10, std::move(result.out)),
                          array_result(std::move(result.state)));
  });
}

}  // namespace gpk::bind
