// Reductions and scans as functions.
#include "bindings/array_object.h"
#include "bindings/axes.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/output.h"
#include "core/error.h"
#include "core/text.h"
#include "ops/reduction/reduce.h"
#include "ops/reduction/scan.h"

namespace gpk::bind {
namespace {

[[noreturn]] void bad_argument(const char* op, const char* argument, py::handle given,
                               const char* expected) {
  throw InvalidArgument(InvalidArgument::Kind::kType,
                        cat(op, ": ", argument, " is ", safe_repr(given), ", expected ", expected));
}

std::optional<Dims> one_axis_from_python(py::handle axis, const char* op) {
  const auto number = optional_int(axis, op, "axis");
  return number ? std::optional(Dims{*number}) : std::nullopt;
}

const Array& input(py::handle x, const char* op) {
  if (!is_array(x.ptr())) bad_argument(op, "x", x, "a GPUArray");
  return array_of(x.ptr());
}

py::object run(ops::Reduction reduction, py::handle x, ops::ReduceOptions& options,
               py::handle out) {
  const char* op = ops::name(reduction);
  const Array array = input(x, op);
  return call_with_out(out, op, [&](const std::optional<Array>& into) {
    options.out = into;
    return ops::reduce(reduction, array, options);
  });
}

// sum(x, axis, dtype, keepdims, out)
void def_with_dtype(py::module_& m, ops::Reduction reduction, const char* doc) {
  const char* op = ops::name(reduction);
  m.def(
      op,
      [reduction, op](py::handle x, py::handle axis, py::handle dtype, bool keepdims,
                      py::handle out) {
        ops::ReduceOptions options;
        options.axes = optional_ints(axis, op, "axis");
        options.dtype = optional_dtype(dtype, op);
        options.keepdims = keepdims;
        return run(reduction, x, options, out);
      },
      py::arg("x"), py::arg("axis") = py::none(), py::arg("dtype") = py::none(),
      py::arg("keepdims") = false, py::arg("out") = py::none(), doc);
}

// max(x, axis, keepdims, out); argmax takes one axis.
void def_plain(py::module_& m, ops::Reduction reduction, bool one_axis, const char* doc) {
  const char* op = ops::name(reduction);
  m.def(
      op,
      [reduction, op, one_axis](py::handle x, py::handle axis, bool keepdims, py::handle out) {
        ops::ReduceOptions options;
        options.axes = one_axis ? one_axis_from_python(axis, op) : optional_ints(axis, op, "axis");
        options.keepdims = keepdims;
        return run(reduction, x, options, out);
      },
      py::arg("x"), py::arg("axis") = py::none(), py::arg("keepdims") = false,
      py::arg("out") = py::none(), doc);
}

// var(x, axis, correction, keepdims, dtype, out)
void def_variance(py::module_& m, ops::Reduction reduction, const char* doc) {
  const char* op = ops::name(reduction);
  m.def(
      op,
      [reduction, op](py::handle x, py::handle axis, double correction, bool keepdims,
                      py::handle dtype, py::handle out) {
        ops::ReduceOptions options;
        options.axes = optional_ints(axis, op, "axis");
        options.correction = correction;
        options.keepdims = keepdims;
        options.dtype = optional_dtype(dtype, op);
        return run(reduction, x, options, out);
      },
      py::arg("x"), py::arg("axis") = py::none(), py::arg("correction") = 0.0,
      py::arg("keepdims") = false, py::arg("dtype") = py::none(), py::arg("out") = py::none(), doc);
}

py::object run_scan(ops::Scan which, py::handle x, ops::ScanOptions& options, py::handle out) {
  const Array array = input(x, options.op);
  return call_with_out(out, options.op, [&](const std::optional<Array>& into) {
    options.out = into;
    return ops::scan(which, array, options);
  });
}

// cumsum(x, axis, dtype, out)
void def_scan(py::module_& m, ops::Scan which, const char* doc) {
  m.def(
      ops::name(which),
      [which](py::handle x, py::handle axis, py::handle dtype, py::handle out) {
        ops::ScanOptions options;
        options.op = ops::name(which);
        options.axis = optional_int(axis, options.op, "axis");
        options.dtype = optional_dtype(dtype, options.op);
        return run_scan(which, x, options, out);
      },
      py::arg("x"), py::arg("axis") = py::none(), py::arg("dtype") = py::none(),
      py::arg("out") = py::none(), doc);
}

// cumulative_sum(x, axis, dtype, include_initial, out): the axis may be left out of 0-d and 1-d.
void def_cumulative(py::module_& m, const char* op, ops::Scan which, const char* doc) {
  m.def(
      op,
      [op, which](py::handle x, py::handle axis, py::handle dtype, bool include_initial,
                  py::handle out) {
        ops::ScanOptions options;
        options.op = op;
        options.include_initial = include_initial;
        options.axis = optional_int(axis, options.op, "axis");
        options.dtype = optional_dtype(dtype, op);
        if (const Array& array = input(x, op); !options.axis && array.ndim() > 1)
          throw InvalidArgument(cat(op, ": axis is required for an array of ", array.ndim(),
                                    " dimensions, x has shape ", to_string(array.shape())));
        return run_scan(which, x, options, out);
      },
      py::arg("x"), py::arg("axis") = py::none(), py::arg("dtype") = py::none(),
      py::arg("include_initial") = false, py::arg("out") = py::none(), doc);
}

}  // namespace

void bind_reduction(py::module_& m) {
  using ops::Reduction;
  def_with_dtype(m, Reduction::kSum, "Sum of elements along axes.");
  def_with_dtype(m, Reduction::kProd, "Product of elements along axes.");
  def_with_dtype(m, Reduction::kMean, "Mean of elements along axes.");
  def_with_dtype(m, Reduction::kNanSum, "Sum of elements along axes that are not NaN.");
  def_with_dtype(m, Reduction::kNanProd, "Product of elements along axes that are not NaN.");
  def_with_dtype(m, Reduction::kNanMean, "Mean of elements along axes that are not NaN.");
  def_plain(m, Reduction::kMax, false, "Largest element along axes; NaN wins.");
  def_plain(m, Reduction::kMin, false, "Smallest element along axes; NaN wins.");
  def_plain(m, Reduction::kNanMax, false, "Largest element along axes that is not NaN.");
  def_plain(m, Reduction::kNanMin, false, "Smallest element along axes that is not NaN.");
  def_plain(m, Reduction::kAny, false, "Whether any element along axes is not zero.");
  def_plain(m, Reduction::kAll, false, "Whether no element along axes is zero.");
  def_plain(m, Reduction::kCountNonzero, false, "Number of elements along axes that are not zero.");
  def_plain(m, Reduction::kArgMax, true, "Index of the first largest element along an axis.");
  def_plain(m, Reduction::kArgMin, true, "Index of the first smallest element along an axis.");
  def_plain(m, Reduction::kNanArgMax, true,
            "Index of the first largest element along an axis that is not NaN.");
  def_plain(m, Reduction::kNanArgMin, true,
            "Index of the first smallest element along an axis that is not NaN.");
  def_variance(m, Reduction::kVar, "Variance of elements along axes.");
  def_variance(m, Reduction::kStd, "Standard deviation of elements along axes.");
  def_variance(m, Reduction::kNanVar, "Variance of elements along axes that are not NaN.");
  def_variance(m, Reduction::kNanStd,
               "Standard deviation of elements along axes that are not NaN.");
  def_scan(m, ops::Scan::kCumSum, "Running sum along an axis, or over all elements.");
  def_scan(m, ops::Scan::kCumProd, "Running product along an axis, or over all elements.");
  def_scan(m, ops::Scan::kNanCumSum, "Running sum along an axis; NaN counts as 0.");
  def_scan(m, ops::Scan::kNanCumProd, "Running product along an axis; NaN counts as 1.");
  def_cumulative(m, "cumulative_sum", ops::Scan::kCumSum, "Running sum along an axis.");
  def_cumulative(m, "cumulative_prod", ops::Scan::kCumProd, "Running product along an axis.");
}

}  // namespace gpk::bind
