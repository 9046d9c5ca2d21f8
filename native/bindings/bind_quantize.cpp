// Packed weights.
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "bindings/packed_object.h"
#include "bindings/results.h"
#include "core/view.h"
#include "llm/packed_file.h"
#include "ops/elementwise/copy.h"
#include "ops/matmul/packed_groups.h"
#include "ops/quantize/quantize.h"

namespace gpk::bind {
namespace {

using ops::PackedWeight;

// (w, format, group, zero_point, block)
py::object quantize(const Arguments& args) {
  const Array& w = args.array(0);
  const ops::PackedLayout layout =
      make_layout(ops::quant_format_named(args.text(1), args.op()), args.optional_integer(2),
                  args.flag(3), args.flag(4), args.op());
  auto packed = [&] {
    const BrieflyWithoutGil released;
    return ops::quantize(w, layout);
  }();
  return py::cast(std::move(packed));
}

// (w, dtype, out)
PyObject* dequantize(const Arguments& args) {
  const PackedWeight& w = packed_argument(args, 0);
  const std::optional<DType> dtype = args.optional_dtype(1);
  return run_into(args, 2,
                  [&](const std::optional<Array>& out) { return ops::dequantize(w, dtype, out); });
}

py::object part(const std::optional<Array>& array) {
  if (!array) return py::none();
  return array_result(*array);
}

// Kernels read 16 bytes at a time.
Array aligned(const Array& part) {
  const bool moved = part.is_contiguous() && part.device_ptr() % 16 != 0;
  return moved ? ops::copy_as(part, part.dtype(), "PackedWeight") : part;
}

PackedWeight from_parts(const Array& values, const std::optional<Array>& scales,
                        const std::optional<Array>& zero_points,
                        const std::optional<Array>& tensor_scale,
                        const std::optional<Array>& metadata, const std::string& format,
                        std::optional<std::int64_t> group, bool block, py::handle shape,
                        py::handle dtype) {
  constexpr const char* kOp = "PackedWeight";
  PackedWeight w{
      make_layout(ops::quant_format_named(format, kOp), group, zero_points.has_value(), block, kOp),
      shape_from_python(shape, kOp),
      dtype_from_python(dtype, kOp),
      values,
      scales,
      zero_points,
      tensor_scale,
      metadata};
  check_packed(w, kOp);
  w.values = aligned(w.values);
  if (w.scales) w.scales = aligned(*w.scales);
  if (w.metadata) w.metadata = aligned(*w.metadata);
  return w;
}

Array array_given(py::handle object, const char* argument) {
  if (!is_array(object.ptr())) bad_argument("PackedWeight", argument, object, "a GPUArray");
  return array_of(object.ptr());
}

// A str, bytes or a path object.
std::string path_given(py::handle object, const char* op) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(object.ptr(), &bytes) == 0) {
    if (PyErr_ExceptionMatches(PyExc_ValueError) != 0) {  // NUL characters, lone surrogates
      PyErr_Clear();
      throw InvalidArgument(cat(op, ": path is ", safe_repr(object), ", which no file can have"));
    }
    clear_if(PyExc_TypeError);
    bad_argument(op, "path", object, "a str or a path");
  }
  return py::reinterpret_steal<py::bytes>(bytes);
}

std::optional<Array> maybe_array(py::handle object, const char* argument) {
  if (object.is_none()) return std::nullopt;
  return array_given(object, argument);
}

// What copy and pickle put it together from: the constructor with its keywords, and the parts.
py::tuple reduce_packed(py::handle self) {
  const auto& w = self.cast<const PackedWeight&>();
  const py::object partial = py::module_::import("functools").attr("partial");
  const py::object make =
      partial(py::type::of<PackedWeight>(), py::arg("format") = name(w.layout.format),
              py::arg("group") = w.layout.group, py::arg("block") = w.layout.blocks,
              py::arg("shape") = to_tuple(w.shape), py::arg("dtype") = name(w.dtype));
  return py::make_tuple(make, py::make_tuple(part(w.values), part(w.scales), part(w.zero_points),
                                             part(w.tensor_scale), part(w.metadata)));
}

void bind_packed_weight(py::class_<PackedWeight>& type) {
  type.def(py::init([](py::handle values, py::handle scales, py::handle zero_points,
                       py::handle tensor_scale, py::handle metadata, const std::string& format,
                       std::optional<std::int64_t> group, bool block, py::handle shape,
                       py::handle dtype) {
             return from_parts(
                 array_given(values, "values"), maybe_array(scales, "scales"),
                 maybe_array(zero_points, "zero_points"), maybe_array(tensor_scale, "tensor_scale"),
                 maybe_array(metadata, "metadata"), format, group, block, shape, dtype);
           }),
           py::arg("values"), py::arg("scales") = py::none(), py::arg("zero_points") = py::none(),
           py::arg("tensor_scale") = py::none(), py::arg("metadata") = py::none(), py::kw_only(),
           py::arg("format"), py::arg("group") = py::none(), py::arg("block") = false,
           py::arg("shape"), py::arg("dtype"))
      .def_property_readonly("values", [](const PackedWeight& w) { return array_result(w.values); })
      .def_property_readonly("scales", [](const PackedWeight& w) { return part(w.scales); })
      .def_property_readonly("zero_points",
                             [](const PackedWeight& w) { return part(w.zero_points); })
      .def_property_readonly("tensor_scale",
                             [](const PackedWeight& w) { return part(w.tensor_scale); })
      .def_property_readonly("metadata", [](const PackedWeight& w) { return part(w.metadata); })
      .def_property_readonly("format", [](const PackedWeight& w) { return name(w.layout.format); })
      .def_property_readonly("group", [](const PackedWeight& w) { return w.layout.group; })
      .def_property_readonly("block", [](const PackedWeight& w) { return w.layout.blocks; })
      .def_property_readonly("shape", [](const PackedWeight& w) { return to_tuple(w.shape); })
      .def_property_readonly("dtype",
                             [](const PackedWeight& w) {
                               return py::reinterpret_borrow<py::object>(dtype_object(w.dtype));
                             })
      .def_property_readonly("nbytes", &PackedWeight::num_bytes)
      .def_property_readonly("T", [](const PackedWeight& w) { return PackedTranspose{w}; })
      .def(
          "dequantize",
          [](const PackedWeight& w, py::handle dtype) {
            const std::optional<DType> to = optional_dtype(dtype, "dequantize");
            Array result = [&] {
              const WithoutGil released;
              return ops::dequantize(w, to);
            }();
            return array_result(std::move(result));
          },
          py::arg("dtype") = py::none(), "The numbers that the values stand for.")
      .def(
          "save",
          [](const PackedWeight& w, py::handle path) {
            const std::string file = path_given(path, "PackedWeight.save");
            const WithoutGil released;
            llm::save_packed(file, w);
          },
          py::arg("path"), "Writes a SafeTensors file.")
      .def_static(
          "load",
          [](py::handle path, py::handle device) {
            const std::string file = path_given(path, "PackedWeight.load");
            const Device where = device_from_python(device, "PackedWeight.load");
            const WithoutGil released;
            return llm::load_packed(file, where);
          },
          py::arg("path"), py::arg("device") = py::none(), "Reads what save() wrote.")
      .def("__reduce__", &reduce_packed)
      .def("__repr__", [](const PackedWeight& w) { return to_string(w); });
}

void bind_packed_transpose(py::class_<PackedTranspose>& type) {
  type.def_property_readonly("T", [](const PackedTranspose& w) { return w.weight; })
      .def_property_readonly(
          "shape",
          [](const PackedTranspose& w) { return py::make_tuple(w.weight.k(), w.weight.n()); })
      .def("__rmatmul__", [](const PackedTranspose& w, py::handle x) -> py::object {
        if (!is_array(x.ptr())) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
        return array_result(multiply_packed(array_of(x.ptr()), w));
      });
}

}  // namespace

const PackedWeight* packed_of(py::handle object) {
  if (!py::isinstance<PackedWeight>(object)) return nullptr;
  return object.cast<const PackedWeight*>();
}

const PackedTranspose* packed_transpose_of(py::handle object) {
  if (!py::isinstance<PackedTranspose>(object)) return nullptr;
  return object.cast<const PackedTranspose*>();
}

const PackedWeight& packed_argument(const Arguments& args, int i) {
  if (const PackedWeight* w = packed_of(args[i])) return *w;
  args.refuse(i, "a PackedWeight");
}

Array multiply_packed(const Array& x, const PackedTranspose& w) {
  const BrieflyWithoutGil released;
  return ops::linear(x, w.weight, {}, "matmul");
}

void bind_quantize(py::module_& m) {
  // Both first: signatures of each name the other.
  py::class_<PackedWeight> weight(m, "PackedWeight",
                                  "Weights in 4 or 8 bits, or 2:4 sparse: packed values, scales or "
                                  "metadata, and what they stand for. Made by quantize().");
  py::class_<PackedTranspose> transpose(m, "PackedTranspose",
                                        "The transpose of packed weights, for x @ w.T.");
  bind_packed_weight(weight);
  bind_packed_transpose(transpose);
  define(m, "quantize", quantize);
  define(m, "dequantize", dequantize);
  define(m, "check_packing", [](const Arguments& args) -> py::object {
    const std::string op = args.text(0);
    make_layout(ops::quant_format_named(args.text(1), op.c_str()), args.optional_integer(2),
                args.flag(3), args.flag(4), op.c_str());
    return py::none();
  });
  define(m, "grouped_linear", [](const Arguments& args) {
    const Array& x = args.array(0);
    const PackedWeight& w = packed_argument(args, 1);
    const Array& sizes = args.array(2);
    const bool few_rows = args.flag(3);
    Array result = [&] {
      const BrieflyWithoutGil released;
      return ops::grouped_linear(x, w, sizes, few_rows);
    }();
    return array_result(std::move(result));
  });
}

}  // namespace gpk::bind
