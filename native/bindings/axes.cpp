#include "bindings/axes.h"

#include "base/error.h"
#include "base/text.h"
#include "bindings/convert.h"

namespace gpk::bind {

std::int64_t int_from_python(py::handle object, const char* op, const char* argument) {
  if (PyLong_CheckExact(object.ptr())) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
    if (overflow == 0) return value;
  }
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(object.ptr()));
  if (!index) {
    clear_if(PyExc_TypeError);
    bad_argument(op, argument, object, "an integer");
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0)
    throw InvalidArgument(
        InvalidArgument::Kind::kOverflow,
        cat(op, ": ", argument, " is ", safe_repr(index), ", which does not fit in 64 bits"));
  return value;
}

Dims ints_from_python(py::handle object, const char* op, const char* argument) {
  if (PyIndex_Check(object.ptr())) return Dims{int_from_python(object, op, argument)};
  if (!PySequence_Check(object.ptr()) || PyUnicode_Check(object.ptr()))
    bad_argument(op, argument, object, "an integer or a sequence of integers");
  const py::tuple items = items_from_python(object);
  const std::size_t count = items.size();
  if (count > kMaxRank)
    throw InvalidArgument(
        cat(op, ": ", argument, " has ", count, " entries, at most ", kMaxRank, " are supported"));
  Dims values = Dims::filled(static_cast<int>(count), 0);
  for (std::size_t i = 0; i < count; ++i)
    values[static_cast<int>(i)] = int_from_python(items[i], op, argument);
  return values;
}

std::optional<Dims> optional_ints(py::handle object, const char* op, const char* argument) {
  if (object.is_none()) return std::nullopt;
  return ints_from_python(object, op, argument);
}

std::optional<std::int64_t> optional_int(py::handle object, const char* op, const char* argument) {
  if (object.is_none()) return std::nullopt;
  return int_from_python(object, op, argument);
}

}  // namespace gpk::bind
