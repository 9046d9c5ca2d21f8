// Views, copies and casts, and type promotion.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "core/graph.h"
#include "core/promote.h"
#include "core/result_type.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/manipulation/axes.h"
#include "ops/output.h"

namespace gpk::bind {
namespace {

// --- axes ---------------------------------------------------------------------------------------

Array squeeze_axes(const Arguments& args) {
  const Array& x = args.array_like(0);
  if (const auto axes = args.optional_integers(1)) return squeeze(x, *axes, "squeeze");
  std::vector<std::int64_t> ones;
  for (int i = 0; i < x.ndim(); ++i)
    if (x.shape()[i] == 1) ones.push_back(i);
  return squeeze(x, Dims(ones), "squeeze");
}

// (x, axes)
Array permute_axes(const Arguments& args) {
  const Array& x = args.array_like(0);
  const auto order = args.optional_integers(1);
  return order ? permute(x, *order, args.op()) : transpose(x, args.op());
}

// (x, offset, axis1, axis2)
Array diagonal_of(const Arguments& args) {
  const Array& x = args.array_like(0);
  if (x.ndim() < 2)
    throw InvalidArgument(
        cat("diagonal: x has shape ", to_string(x.shape()), ", expected at least two dimensions"));
  const int first = normalize_axis(args.integer(2), x.ndim(), "diagonal");
  const int second = normalize_axis(args.integer(3), x.ndim(), "diagonal");
  if (first == second) throw InvalidArgument(cat("diagonal: axis1 and axis2 are both ", first));
  const std::int64_t k = std::clamp(args.integer(1), -x.shape()[first], x.shape()[second]);
  return diagonal(x, k, first, second, "diagonal");
}

void bind_axes(py::module_& m) {
  define(m, "permute_dims", permute_axes);
  define(m, "transpose", permute_axes);
  define(m, "squeeze", squeeze_axes);
  define(m, "diagonal", diagonal_of);
  define(m, "expand_dims", [](const Arguments& args) {
    return expand_dims(args.array_like(0), args.integers(1), "expand_dims");
  });
  define(m, "flip", [](const Arguments& args) {
    return ops::flip(args.array_like(0), args.optional_integers(1));
  });
  define(m, "moveaxis", [](const Arguments& args) {
    const Array& x = args.array_like(0);
    const Dims source = args.integers(1);
    return ops::moveaxis(x, source, args.integers(2));
  });
  define(m, "swapaxes", [](const Arguments& args) {
    const Array& x = args.array_like(0);
    const std::int64_t axis1 = args.integer(1);
    return ops::swapaxes(x, axis1, args.integer(2), "swapaxes");
  });
}

// --- shapes -------------------------------------------------------------------------------------

Dims reversed(const Dims& dims) {
  Dims result = Dims::filled(dims.size(), 0);
  for (int i = 0; i < dims.size(); ++i) result[i] = dims[dims.size() - 1 - i];
  return result;
}

// C order, of the array or of its transpose.
Array reshape_in_c_order(const Array& x, const Dims& target, std::optional<bool> copy) {
  if (!copy.value_or(false)) {
    if (auto view = try_reshape(x, target)) return *view;
    if (copy)
      throw InvalidArgument(cat("reshape: array of shape ", to_string(x.shape()),
                                " cannot be viewed with shape ", to_string(target),
                                " without a copy, and copy is False"));
  }
  const WithoutGil released;
  return *try_reshape(ops::copy_as(x, x.dtype(), "reshape"), target);
}

// Elements of x's buffer at x's first one plus any multiples of the strides (in bytes).
Array strided_view(const Array& x, const std::vector<std::int64_t>& shape,
                   const std::vector<std::int64_t>& strides) {
  constexpr const char* op = "as_strided";
  const auto bytes = static_cast<std::int64_t>(itemsize(x.dtype()));
  if (shape.size() != strides.size() || shape.size() > 32)
    throw InvalidArgument(cat(op, ": ", shape.size(), " sizes and ", strides.size(),
                              " strides, expected as many, at most 32"));
  if (info(x.dtype()).bits < 8)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": elements of ", name(x.dtype()), " share bytes"));
  // Each step is compared with the memory's end before it is added, so that nothing overflows.
  const auto end = static_cast<std::int64_t>(x.buffer()->bytes()) / bytes;
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  std::vector<std::int64_t> steps;
  std::int64_t first = x.offset_elems();
  std::int64_t last = first;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) throw InvalidArgument(cat(op, ": shape has a negative size: ", shape[i]));
    if (strides[i] % bytes != 0)
      throw InvalidArgument(cat(op, ": the stride ", strides[i], " is not a multiple of the ",
                                bytes, " bytes of an element"));
    const std::int64_t step = steps.emplace_back(strides[i] / bytes);
    if (empty || shape[i] == 1 || step == 0) continue;
    bool inside = step >= -end && step <= end && shape[i] - 1 <= end / std::abs(step);
    if (inside) {
      (step < 0 ? first : last) += step * (shape[i] - 1);
      inside = first >= 0 && last < end;
    }
    if (!inside)
      throw InvalidArgument(cat(op, ": shape ", to_string(Dims(shape)), " with strides ",
                                to_string(Dims(strides)), " is outside of the array's memory"));
  }
  return {Dims(shape), Dims(steps), x.dtype(), x.buffer(), x.offset_elems()};
}

// (x, shape, order, copy)
Array reshape_to(const Arguments& args) {
  const Array& x = args.array_like(0);
  const Dims target = resolve_shape(args.shape(1), x.size(), "reshape");
  const std::optional<bool> copy = args.is_none(3) ? std::nullopt : std::optional(args.flag(3));
  if (args.is_default(2)) [[likely]]
    return reshape_in_c_order(x, target, copy);
  const std::string order = args.text(2);
  if (order != "C" && order != "F" && order != "A")
    throw InvalidArgument(cat("reshape: order is '", order, "', expected 'C', 'F' or 'A'"));
  // 'A': Fortran order where the memory has it.
  const bool fortran = order == "F" || (order == "A" && !x.is_contiguous() &&
                                        transpose(x, "reshape").is_contiguous());
  if (!fortran) return reshape_in_c_order(x, target, copy);
  const Array flipped = transpose(x, "reshape");
  return transpose(reshape_in_c_order(flipped, reversed(target), copy), "reshape");
}

Array slice_part(const Array& x, std::int64_t axis, std::int64_t first, std::int64_t count,
                 std::int64_t step) {
  const int at = normalize_axis(axis, x.ndim(), "slice_axis");
  const std::int64_t size = x.shape()[at];
  // Unsigned, so that no sum overflows.
  const auto inside = [size](std::int64_t i) { return i >= 0 && i < size; };
  std::int64_t reach = 0;
  if (count < 0 ||
      (count > 0 && (!inside(first) || __builtin_mul_overflow(count - 1, step, &reach) ||
                     __builtin_add_overflow(first, reach, &reach) || !inside(reach))))
    throw InvalidArgument(InvalidArgument::Kind::kIndex,
                          cat("slice_axis: ", count, " elements from ", first, " in steps of ",
                              step, " exceed an axis of size ", size));
  return slice_axis(x, at, first, count, step);
}

py::tuple broadcast_all(const py::args& shapes) {
  Dims result;
  for (const py::handle shape : shapes)
    result =
        broadcast_shapes(result, shape_from_python(shape, "broadcast_shapes"), "broadcast_shapes");
  return to_tuple(result);
}

void bind_shapes(py::module_& m) {
  const auto x = py::arg("x");
  define(m, "reshape", reshape_to);
  define(m, "broadcast_to", [](const Arguments& args) {
    return broadcast_to(args.array_like(0), args.shape(1), "broadcast_to");
  });
  define(m, "may_share_memory", [](const Arguments& args) {
    return py::bool_(may_overlap(args.array(0), args.array(1)));
  });
  m.def("broadcast_shapes", broadcast_all, "The common broadcast shape.");
  m.def("slice_axis", slice_part, x, py::arg("axis"), py::arg("first"), py::arg("count"),
        py::arg("step") = 1, "A view of elements first, first + step, ... of one axis.");
  m.def("strided_view", strided_view, x, py::arg("shape"), py::arg("strides"),
        "A view with any shape and strides (in bytes) inside the array's memory.");
  m.def(
      "view_as",
      [](const Array& a, py::handle dtype) {
        return ops::view_as(a, dtype_from_python(dtype, "view"));
      },
      x, py::arg("dtype"), "The same bytes as another dtype.");
  m.def(
      "real_part",
      [](const Array& a) { return is_complex(a.dtype()) ? complex_part(a, false) : a; }, x,
      "A view of the real parts; a real array itself.");
  m.def(
      "imag_part",
      [](const Array& a) -> Array {
        if (is_complex(a.dtype())) return complex_part(a, true);
        const WithoutGil released;
        return ops::full(a.shape(), Scalar(std::int64_t{0}), a.dtype(), a.device(), "imag");
      },
      x, "A view of the imaginary parts; zeros for a real array.");
}

// --- copies -------------------------------------------------------------------------------------

Array cast_to(const Array& x, py::handle dtype, bool copy) {
  const DType to = dtype_from_python(dtype, "astype");
  if (is_complex(x.dtype()) && !is_complex(to) && to != DType::kBool)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat("astype: ", name(x.dtype()), " cannot be cast to ", name(to),
                              "; take the real part or abs() first"));
  const WithoutGil released;
  return copy ? ops::copy_as(x, to, "astype") : ops::cast(x, to, "astype");
}

Array move_to(const Array& x, py::handle where) {
  const Device device = device_from_python(where, "to_device");
  if (device == x.device()) return x;
  const WithoutGil released;
  const Array source = ops::contiguous(x, "to_device");
  if (device.is_cuda() && x.device().is_cuda()) {
    Array result = Array::empty(x.shape(), x.dtype(), device, "to_device");
    copy(result, source, "to_device");
    return result;
  }
  if (device.is_cuda()) return device::from_host(source.data(), x.shape(), x.dtype(), device);
  forbid_in_capture("to_device", "host memory is written now, the work is only being recorded");
  Array result = Array::empty(x.shape(), x.dtype(), device, "to_device");
  const BufferUse use(result.buffer(), current_stream(device));
  device::to_host(source, result.data());
  return result;
}

void bind_copies(py::module_& m) {
  const auto x = py::arg("x");
  m.def(
      "copy_into",
      [](const Array& dst, const Array& src) {
        ops::check_writable(dst, "copy_into", "dst");
        const WithoutGil released;
        ops::copy_into(dst, src, "copy_into");
      },
      py::arg("dst"), py::arg("src"),
      "dst[...] = src, broadcast to its shape and cast to its dtype.");
  define(m, "copy", [](const Arguments& args) {
    const Array& a = args.array_like(0);
    const WithoutGil released;
    return ops::copy_as(a, a.dtype(), "copy");
  });
  m.def(
      "ascontiguousarray",
      [](const Array& a) {
        const WithoutGil released;
        return ops::contiguous(a, "ascontiguousarray");
      },
      x, "The array itself when it is C-contiguous, else a contiguous copy.");
  m.def("astype", cast_to, x, py::arg("dtype"), py::arg("copy") = true,
        "A cast to another dtype; with copy=False the array itself when it already has it.");
  m.def("to_device", move_to, x, py::arg("device"),
        "The array itself when it is on that device, else a copy there.");
}

// --- dtypes -------------------------------------------------------------------------------------

const DTypeInfo& common_dtype(const py::args& items) {
  std::vector<DType> dtypes;
  std::vector<Scalar> numbers;
  for (const py::handle item : items) {
    if (is_array(item.ptr())) {
      dtypes.push_back(array_of(item.ptr()).dtype());
    } else if (PyBool_Check(item.ptr()) || PyLong_CheckExact(item.ptr()) ||
               PyFloat_CheckExact(item.ptr()) || PyComplex_CheckExact(item.ptr())) {
      numbers.push_back(*scalar_from_python(item, "result_type"));
    } else if (has_attribute(item, "dtype") && !py::isinstance<py::type>(item)) {
      dtypes.push_back(dtype_from_python(item.attr("dtype"), "result_type"));
    } else {
      dtypes.push_back(dtype_from_python(item, "result_type"));
    }
  }
  return info(result_type(dtypes, numbers, "result_type"));
}

bool castable(py::handle from, py::handle to, const std::string& casting) {
  const DType source =
      is_array(from.ptr()) ? array_of(from.ptr()).dtype() : dtype_from_python(from, "can_cast");
  const DType target = dtype_from_python(to, "can_cast");
  if (casting == "safe") return can_cast_safely(source, target);
  if (casting == "same_kind") return can_cast_same_kind(source, target);
  if (casting == "unsafe") return true;
  if (casting == "no" || casting == "equiv") return source == target;
  throw InvalidArgument(cat("can_cast: casting is '", casting,
                            "', expected 'no', 'equiv', 'safe', 'same_kind' or 'unsafe'"));
}

void bind_dtype_rules(py::module_& m) {
  m.def("result_type", common_dtype, py::return_value_policy::reference,
        "The common dtype of arrays, dtypes and Python numbers.");
  m.def("can_cast", castable, py::arg("from_"), py::arg("to"), py::arg("casting") = "safe",
        "Whether a casting rule allows a cast between two dtypes.");
}

}  // namespace

void bind_view(py::module_& m) {
  bind_axes(m);
  bind_shapes(m);
  bind_copies(m);
  bind_dtype_rules(m);
}

}  // namespace gpk::bind
