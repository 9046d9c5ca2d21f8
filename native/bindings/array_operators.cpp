#include "bindings/array_operators.h"

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/convert.h"
#include "bindings/errors.h"
#include "bindings/operand.h"
#include "bindings/products.h"
#include "core/promote.h"

namespace gpk::bind {
namespace {

using ops::OpId;

// The other operand of an operator may be a list or a tuple of numbers, as in NumPy: it becomes an
// array on the same device. Left to Python, `x == [1, 2]` would always be False.
std::optional<Array> array_from_list(PyObject* object, PyObject* other, const char* op) {
  if (!is_list(object)) return std::nullopt;
  try {
    return from_numpy(object, array_of(other).device());
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(error.kind(), cat(op, ": a list as an operand: ", error.what()));
  } catch (py::error_already_set& error) {  // ragged rows
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError)) throw;
  }
  bad_argument(op, "a list as an operand", object, "a list of numbers");
}

PyObject* call_binary(OpId id, PyObject* a, PyObject* b, PyObject* out) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
    const char* op = ops::elementwise_op(id).name;
    auto left = operand_beside(a, b, id);
    auto right = operand_beside(b, a, id);
    std::optional<Array> listed;
    if (!left || !right) {
      listed = left ? array_from_list(b, a, op) : array_from_list(a, b, op);
      if (listed) (left ? right : left).emplace(*listed);
    }
    if (!left || !right) return Py_NewRef(Py_NotImplemented);
    const ops::Operand operands[] = {*left, *right};
    return call_elementwise(id, operands, out == nullptr ? nullptr : &array_of(out), out);
  });
}

template <OpId id>
PyObject* binary(PyObject* a, PyObject* b) {
  return call_binary(id, a, b, nullptr);
}

template <OpId id>
PyObject* in_place(PyObject* a, PyObject* b) {
  return call_binary(id, a, b, a);
}

template <OpId id>
PyObject* unary(PyObject* a) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    const ops::Operand operands[] = {array_of(a)};
    return call_elementwise(id, operands, nullptr, nullptr);
  });
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  return modulus == Py_None ? binary<OpId::pow>(a, b) : Py_NewRef(Py_NotImplemented);
}

PyObject* power_in_place(PyObject* a, PyObject* b, PyObject* modulus) {
  return modulus == Py_None ? in_place<OpId::pow>(a, b) : Py_NewRef(Py_NotImplemented);
}

PyObject* divide_both(PyObject* a, PyObject* b) {
  PyObject* quotient = binary<OpId::floor_divide>(a, b);
  if (quotient == nullptr || quotient == Py_NotImplemented) return quotient;
  PyObject* rest = binary<OpId::remainder>(a, b);
  if (rest == nullptr) {
    Py_DECREF(quotient);
    return nullptr;
  }
  PyObject* both = PyTuple_Pack(2, quotient, rest);
  Py_DECREF(quotient);
  Py_DECREF(rest);
  return both;
}

PyObject* compare(PyObject* a, PyObject* b, int how) {
  switch (how) {
    case Py_LT: return binary<OpId::less>(a, b);
    case Py_LE: return binary<OpId::less_equal>(a, b);
    case Py_EQ: return binary<OpId::equal>(a, b);
    case Py_NE: return binary<OpId::not_equal>(a, b);
    case Py_GT: return binary<OpId::greater>(a, b);
    default: return binary<OpId::greater_equal>(a, b);
  }
}

PyObject* matmul(PyObject* a, PyObject* b) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
    if (is_array(a) && is_array(b)) return multiply_arrays(a, b);
    const bool left = is_array(a);
    const auto listed = left ? array_from_list(b, a, "matmul") : array_from_list(a, b, "matmul");
    if (!listed) return Py_NewRef(Py_NotImplemented);
    const auto made = py::reinterpret_steal<py::object>(make_array_object(*listed));
    return left ? multiply_arrays(a, made.ptr()) : multiply_arrays(made.ptr(), b);
  });
}

PyObject* matmul_in_place(PyObject* a, PyObject* b) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
    if (!is_array(a) || !is_array(b)) return Py_NewRef(Py_NotImplemented);
    const auto product = py::reinterpret_steal<py::object>(multiply_arrays(a, b));
    const ops::Operand operands[] = {array_of(product.ptr())};
    return call_elementwise(OpId::positive, operands, &array_of(a), a);
  });
}

// --- conversions --------------------------------------------------------------------------------

py::object number(PyObject* self, const char* what) {
  const Array& a = array_of(self);
  if (a.size() != 1)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(what, ": only length-1 arrays can be converted to Python scalars, ",
                              "the shape is ", to_string(a.shape())));
  return item_of(a, what);
}

int truth(PyObject* self) {
  return guarded<>(-1, [&] {
    const Array& a = array_of(self);
    if (a.size() != 1)
      throw InvalidArgument(
          a.size() == 0 ? "bool: the truth value of an empty array is ambiguous"
                        : cat("bool: the truth value of an array with more than one element is "
                              "ambiguous, the shape is ",
                              to_string(a.shape()), "; use any() or all()"));
    return PyObject_IsTrue(item_of(a, "bool").ptr());
  });
}

PyObject* to_int(PyObject* self) {
  return guarded<>(static_cast<PyObject*>(nullptr),
                   [&] { return PyNumber_Long(number(self, "int").ptr()); });
}

PyObject* to_float(PyObject* self) {
  return guarded<>(static_cast<PyObject*>(nullptr),
                   [&] { return PyNumber_Float(number(self, "float").ptr()); });
}

PyObject* to_index(PyObject* self) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    const Array& a = array_of(self);
    if (a.ndim() != 0 || !is_integer(a.dtype()))
      throw InvalidArgument(
          InvalidArgument::Kind::kType,
          cat("index: only integer scalar arrays can be converted to a scalar index, this one has "
              "shape ",
              to_string(a.shape()), " and dtype ", name(a.dtype())));
    return item_of(a, "index").release().ptr();
  });
}

template <class F>
PyType_Slot slot(int id, F* function) {
  return {id, reinterpret_cast<void*>(function)};
}

Py_hash_t refuse_hash(PyObject*) {
  PyErr_SetString(PyExc_TypeError,
                  "GPUArray: unhashable, its elements may change; x.item() is the number in a 0-d "
                  "array, x.tolist() those of an array");
  return -1;
}

}  // namespace

const PyType_Slot* array_operator_slots() {
  static const PyType_Slot slots[] = {
      slot(Py_nb_add, binary<OpId::add>),
      slot(Py_nb_subtract, binary<OpId::subtract>),
      slot(Py_nb_multiply, binary<OpId::multiply>),
      slot(Py_nb_true_divide, binary<OpId::divide>),
      slot(Py_nb_floor_divide, binary<OpId::floor_divide>),
      slot(Py_nb_remainder, binary<OpId::remainder>),
      slot(Py_nb_divmod, divide_both),
      slot(Py_nb_power, power),
      slot(Py_nb_lshift, binary<OpId::bitwise_left_shift>),
      slot(Py_nb_rshift, binary<OpId::bitwise_right_shift>),
      slot(Py_nb_and, binary<OpId::bitwise_and>),
      slot(Py_nb_or, binary<OpId::bitwise_or>),
      slot(Py_nb_xor, binary<OpId::bitwise_xor>),
      slot(Py_nb_matrix_multiply, matmul),
      slot(Py_nb_inplace_add, in_place<OpId::add>),
      slot(Py_nb_inplace_subtract, in_place<OpId::subtract>),
      slot(Py_nb_inplace_multiply, in_place<OpId::multiply>),
      slot(Py_nb_inplace_true_divide, in_place<OpId::divide>),
      slot(Py_nb_inplace_floor_divide, in_place<OpId::floor_divide>),
      slot(Py_nb_inplace_remainder, in_place<OpId::remainder>),
      slot(Py_nb_inplace_power, power_in_place),
      slot(Py_nb_inplace_lshift, in_place<OpId::bitwise_left_shift>),
      slot(Py_nb_inplace_rshift, in_place<OpId::bitwise_right_shift>),
      slot(Py_nb_inplace_and, in_place<OpId::bitwise_and>),
      slot(Py_nb_inplace_or, in_place<OpId::bitwise_or>),
      slot(Py_nb_inplace_xor, in_place<OpId::bitwise_xor>),
      slot(Py_nb_inplace_matrix_multiply, matmul_in_place),
      slot(Py_nb_negative, unary<OpId::negative>),
      slot(Py_nb_positive, unary<OpId::positive>),
      slot(Py_nb_absolute, unary<OpId::abs>),
      slot(Py_nb_invert, unary<OpId::bitwise_invert>),
      slot(Py_nb_bool, truth),
      slot(Py_nb_int, to_int),
      slot(Py_nb_float, to_float),
      slot(Py_nb_index, to_index),
      slot(Py_tp_richcompare, compare),
      slot(Py_tp_hash, refuse_hash),
      {0, nullptr},
  };
  return slots;
}

}  // namespace gpk::bind
