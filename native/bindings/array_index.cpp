#include "bindings/array_index.h"

#include <pybind11/numpy.h>

#include <list>

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/convert.h"
#include "bindings/errors.h"
#include "core/promote.h"
#include "device/host_copy.h"

namespace gpk::bind {
namespace {

using ops::IndexItem;

constexpr Py_ssize_t kMaxItems = 2 * kMaxRank + 1;
constexpr const char* kValid =
    ": only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean "
    "arrays are valid indices";

[[noreturn]] void bad_index(const std::string& message) {
  throw InvalidArgument(InvalidArgument::Kind::kIndex, message);
}

// A key as items, and the arrays created from host data that items point to.
struct Key {
  IndexItem items[kMaxItems];  // uninitialised: most keys have one or two
  std::size_t count = 0;
  bool basic = true;
  std::list<Array> made;

  [[nodiscard]] std::span<const IndexItem> span() const { return {items, count}; }
};

void set_integer(IndexItem& item, PyObject* number, const char* op) {
  item.kind = IndexItem::Kind::kInteger;
  item.start = PyNumber_AsSsize_t(number, PyExc_IndexError);
  if (item.start == -1 && PyErr_Occurred() != nullptr) {
    clear_if(PyExc_TypeError, PyExc_IndexError);
    bad_index(cat(op, kValid));
  }
}

void set_array(Key& key, IndexItem& item, const Array& array, const char* op) {
  key.basic = false;
  const DTypeInfo& type = info(array.dtype());
  if (array.dtype() == DType::kBool && array.ndim() == 0) {
    bool value = false;
    {
      const WithoutGil released;
      device::to_host(array, &value);  // whether there is an element depends on the value
    }
    item.kind = IndexItem::Kind::kBool;
    item.start = value ? 1 : 0;
    return;
  }
  const bool integer = type.kind == DTypeClass::kSigned || type.kind == DTypeClass::kUnsigned;
  if (array.dtype() != DType::kBool && (!integer || type.bits == 4))
    bad_index(
        cat(op, ": arrays used as indices must be of integer (or boolean) type, not ", type.name));
  item.kind = array.dtype() == DType::kBool ? IndexItem::Kind::kMask : IndexItem::Kind::kArray;
  item.array = &array;
}

// numpy.asarray(object); nullopt for what is no array, such as rows of different lengths.
std::optional<py::object> host_array(py::handle object) {
  const py::object asarray = py::module_::import("numpy").attr("asarray");
  try {
    return asarray(object);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError)) throw;
    return std::nullopt;
  }
}

// Lists and NumPy objects. Anything else is refused.
void set_host(Key& key, IndexItem& item, PyObject* object, Device device, const char* op) {
  const py::handle handle(object);
  const bool sequence =
      PyList_Check(object) != 0 || PyTuple_Check(object) != 0 || PyRange_Check(object) != 0;
  if (!sequence && !has_attribute(handle, "ndim")) {
    if (PyIndex_Check(object) == 0) bad_index(cat(op, kValid));
    set_integer(item, object, op);
    return;
  }
  const auto found = host_array(handle);
  if (!found) bad_index(cat(op, ": the index is ", safe_repr(handle), "; ", kValid + 2));
  py::object array = *found;
  if (sequence && array.attr("size").cast<std::int64_t>() == 0)
    array = array.attr("astype")("int64");  // [] has no dtype of its own
  const auto kind = array.attr("dtype").attr("kind").cast<std::string>();
  if (kind != "i" && kind != "u" && kind != "b")
    bad_index(sequence || kind == "f" || kind == "c"
                  ? cat(op, ": arrays used as indices must be of integer (or boolean) type")
                  : cat(op, kValid));
  if (array.attr("ndim").cast<int>() > 0) {
    key.made.push_back(from_numpy(array, device));
    set_array(key, item, key.made.back(), op);
    return;
  }
  if (kind != "b") {
    set_integer(item, array.ptr(), op);
    return;
  }
  key.basic = false;
  item.kind = IndexItem::Kind::kBool;
  item.start = array.cast<bool>() ? 1 : 0;
}

void add_item(Key& key, PyObject* object, Device device, const char* op) {
  IndexItem& item = key.items[key.count++];
  if (PySlice_Check(object)) {
    Py_ssize_t start = 0;
    Py_ssize_t stop = 0;
    Py_ssize_t step = 0;
    if (PySlice_Unpack(object, &start, &stop, &step) < 0) {
      // Bounds that are not integers, or a step of zero.
      throw py::error_already_set();
    }
    item.kind = IndexItem::Kind::kSlice;
    item.start = start;
    item.stop = stop;
    item.step = step;
  } else if (PyLong_CheckExact(object)) {  // NOLINT(bugprone-branch-clone): the common case first
    set_integer(item, object, op);
  } else if (object == Py_Ellipsis) {
    item.kind = IndexItem::Kind::kEllipsis;
  } else if (object == Py_None) {
    item.kind = IndexItem::Kind::kNewAxis;
  } else if (is_array(object)) {
    set_array(key, item, array_of(object), op);
  } else if (PyBool_Check(object)) {
    key.basic = false;
    item.kind = IndexItem::Kind::kBool;
    item.start = object == Py_True ? 1 : 0;
  } else if (PyLong_Check(object)) {
    set_integer(item, object, op);
  } else {
    set_host(key, item, object, device, op);
  }
}

void read_key(Key& key, PyObject* object, Device device, const char* op) {
  if (!PyTuple_Check(object)) {
    add_item(key, object, device, op);
    return;
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(object);
  if (count > kMaxItems) bad_index(cat(op, ": too many indices for array: ", count, " were given"));
  for (Py_ssize_t i = 0; i < count; ++i) add_item(key, PyTuple_GET_ITEM(object, i), device, op);
}

[[noreturn]] void bad_value(const char* op, py::handle value, const char* why) {
  throw InvalidArgument(InvalidArgument::Kind::kType,
                        cat(op, ": the value is ",
                            static_cast<const char*>(Py_TYPE(value.ptr())->tp_name), ", ", why));
}

bool is_numpy_integer(py::handle object) {
  return !PyLong_Check(object.ptr()) && !PyFloat_Check(object.ptr()) &&
         py::isinstance(object, py::module_::import("numpy").attr("integer"));
}

// As a Python number, with the bits that an array of this dtype keeps.
py::object wrapped(py::handle integer, DType dtype) {
  const py::object host = py::module_::import("numpy").attr("asarray")(integer);
  return host.attr("astype")(numpy_dtype(dtype)).attr("item")();
}

}  // namespace

Array index_from_python(py::handle object, Device device, const char* op) {
  if (is_array(object.ptr())) return array_of(object.ptr());
  const auto found = host_array(object);
  if (!found) bad_argument(op, "indices", object, "integers");
  const py::object& array = *found;
  const auto kind = array.attr("dtype").attr("kind").cast<std::string>();
  if (array.attr("size").cast<std::int64_t>() == 0)
    return from_numpy(array.attr("astype")("int64"), device);
  if (kind != "i" && kind != "u" && kind != "b")
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": indices have dtype ",
                              std::string(py::str(array.attr("dtype"))), ", expected integers"));
  return from_numpy(array, device);
}

ops::AssignValue value_from_python(py::handle object, const Array& array, const char* op) {
  if (is_array(object.ptr())) return array_of(object.ptr());
  if (is_integer(array.dtype()) && is_numpy_integer(object))
    return *scalar_from_python(wrapped(object, array.dtype()), op);
  if (auto scalar = scalar_for_dtype(object, array.dtype(), op)) return *scalar;
  // An assignment says that it copies, so NumPy arrays are taken too.
  if (!is_list(object.ptr()) && !py::isinstance<py::array>(object))
    bad_value(op, object,
              has_attribute(object, "__array__")
                  ? "which is in host memory; copy it with from_numpy() first"
                  : "expected a GPUArray, a NumPy array, a number or a list of numbers");
  const auto host = host_array(object);
  const auto kind = host ? host->attr("dtype").attr("kind").cast<std::string>() : "O";
  if (kind == "O" || kind == "U" || kind == "S")
    bad_value(op, object, "expected a GPUArray, a NumPy array, a number or a list of numbers");
  return from_numpy(*host, array.device());
}

PyObject* array_getitem(PyObject* self, PyObject* object) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
    const Array& array = array_of(self);
    Key key;
    read_key(key, object, array.device(), "getitem");
    if (key.basic) return make_array_object(ops::select_view(array, key.span(), "getitem"));
    std::optional<Array> result;
    {
      const WithoutGil released;
      result = ops::getitem(array, key.span());
    }
    return make_array_object(std::move(*result));
  });
}

int array_setitem(PyObject* self, PyObject* object, PyObject* given) {
  return guarded<>(-1, [&] {
    if (given == nullptr)
      throw InvalidArgument(InvalidArgument::Kind::kType,
                            "delitem: elements of an array cannot be deleted");
    const Array& array = array_of(self);
    Key key;
    read_key(key, object, array.device(), "setitem");
    const ops::AssignValue value = value_from_python(given, array, "setitem");
    const WithoutGil released;
    ops::setitem(array, key.span(), value);
    return 0;
  });
}

PyObject* array_item(PyObject* self, Py_ssize_t index) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    const IndexItem item{IndexItem::Kind::kInteger, index, 0, 0, nullptr};
    return make_array_object(ops::select_view(array_of(self), {&item, 1}, "getitem"));
  });
}

PyObject* array_iter(PyObject* self) {
  if (array_of(self).ndim() > 0) return PySeqIter_New(self);
  PyErr_SetString(PyExc_TypeError, "iteration over a 0-d array");
  return nullptr;
}

}  // namespace gpk::bind
