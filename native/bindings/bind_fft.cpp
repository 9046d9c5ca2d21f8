// Fourier transforms.
#include "base/error.h"
#include "base/text.h"
#include "bindings/axes.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "ops/fft/fft.h"

namespace gpk::bind {
namespace {

ops::FftNorm norm_of(py::handle object, const char* op) {
  if (object.is_none()) return ops::FftNorm::kBackward;
  const std::optional<std::string> text = text_from_python(object);
  if (!text)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": norm is ", safe_repr(object), ", expected a str"));
  return ops::parse_fft_norm(*text, op);
}

}  // namespace

void bind_fft(py::module_& m) {
  define(m, "fft_execute", [](const Arguments& args) {
    const std::string name = args.text(0);
    const Array& x = args.array(1);
    ops::FftRequest request;
    request.name = name.c_str();
    request.kind = ops::parse_fft_op(args.text(2), request.name);
    request.lengths = optional_ints(args[3], request.name, "s");
    request.axes = optional_ints(args[4], request.name, "axes");
    request.norm = norm_of(args[5], request.name);
    return run_into(args, 6, [&](const std::optional<Array>& out) {
      return ops::fft_execute(x, request, out);
    });
  });
  m.def(
      "fft_plan",
      [](const std::string& kind, std::int64_t n, const py::object& dtype) {
        return ops::explain_fft(kind, n, dtype_from_python(dtype, "explain"));
      },
      py::arg("kind"), py::arg("n"), py::arg("dtype"),
      "The passes and kernels of transforms of n along rows, as text.");
}

}  // namespace gpk::bind
