// Python objects as operands of elementwise ops.
#pragma once

#include <list>
#include <optional>

#include "bindings/arguments.h"
#include "bindings/python.h"
#include "ops/elementwise/elementwise.h"

namespace gpk::bind {

// A GPUArray, a Python number (weak), a NumPy scalar or 0-d array (with its dtype); nullopt for
// anything else. The operand points into `object`, which must stay alive.
std::optional<ops::Operand> operand_from_python(PyObject* object, const char* op);

// Same beside another operand: an integer of more than 64 bits is a float beside an array of
// floats, and an infinity where `id` compares it.
std::optional<ops::Operand> operand_beside(PyObject* object, PyObject* other, ops::OpId id);

// Same; throws InvalidArgument (kType) naming the argument instead of returning nullopt.
ops::Operand require_operand(PyObject* object, const char* op, const char* argument);

// The operands of a call where some may be lists or tuples of numbers: as in NumPy they count as
// int64, float64 or complex128 arrays, on the device of the first GPUArray. So do numbers where no
// operand is an array or a list. They live as long as this object.
class ListOperands {
 public:
  ListOperands(const Arguments& args, int count);
  ops::Operand operator()(const Arguments& args, int i);

 private:
  Device device_;
  bool numbers_only_ = true;
  std::list<Array> made_;
};

// op(operands...) into `out` (nullptr: a new array), with the GIL released briefly. Returns a new
// reference: `out_object` itself when `out` was given.
PyObject* call_elementwise(ops::OpId id, std::span<const ops::Operand> operands, const Array* out,
                           PyObject* out_object);

// The only element as a Python number: bool, int, float or complex. Waits only for the array's own
// work. Throws InvalidArgument unless there is exactly one.
py::object item_of(const Array& array, const char* op);

}  // namespace gpk::bind
