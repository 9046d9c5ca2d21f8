// The elementwise ops as functions, made from the list of them.
#include <array>
#include <deque>

#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/errors.h"
#include "bindings/fast_call.h"
#include "bindings/operand.h"
#include "bindings/output.h"
#include "core/error.h"
#include "core/text.h"
#include "ops/elementwise/fused.h"

namespace gpk::bind {
namespace {

// What a function gets as `self`: its op. Names as the array API standard has them.
struct ElementwiseFunction {
  const ops::ElementwiseOp* op;
  std::string doc;
  std::array<const char*, 5> names;
  FastSignature signature;
  PyMethodDef definition;
};

// Objects that stand for arrays, such as those that fuse() traces with, take the call over: they
// have _elementwise(name, operands).
PyObject* find_expression(PyObject* const* slots, std::size_t arity) {
  static PyObject* const name = PyUnicode_InternFromString("_elementwise");
  for (std::size_t i = 0; i < arity; ++i) {
    PyObject* object = slots[i];
    if (is_array(object) || PyFloat_CheckExact(object) || PyLong_CheckExact(object)) continue;
    if (_PyType_Lookup(Py_TYPE(object), name) != nullptr) return object;
  }
  return nullptr;
}

PyObject* defer(PyObject* expression, const char* op, PyObject* const* slots, std::size_t arity) {
  py::tuple operands(arity);
  for (std::size_t i = 0; i < arity; ++i)
    operands[i] = py::reinterpret_borrow<py::object>(slots[i]);
  return py::handle(expression).attr("_elementwise")(op, operands).release().ptr();
}

PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t num_args, PyObject* keywords) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    const auto* function =
        static_cast<const ElementwiseFunction*>(PyCapsule_GetPointer(self, nullptr));
    const auto arity = static_cast<std::size_t>(function->op->arity);
    PyObject* slots[5];
    bind_arguments(function->signature, args, num_args, keywords, slots);
    const char* op = function->op->name;
    if (PyObject* expression = find_expression(slots, arity)) [[unlikely]]
      return defer(expression, op, slots, arity);
    const auto operand = [&](std::size_t i) {
      return require_operand(slots[i], op, function->names[i]);
    };
    const Array* out = output_from_python(slots[arity], op);
    switch (arity) {
      case 1: {
        const ops::Operand operands[] = {operand(0)};
        return call_elementwise(function->op->id, operands, out, slots[arity]);
      }
      case 2: {
        const ops::Operand operands[] = {operand(0), operand(1)};
        return call_elementwise(function->op->id, operands, out, slots[arity]);
      }
      case 3: {
        const ops::Operand operands[] = {operand(0), operand(1), operand(2)};
        return call_elementwise(function->op->id, operands, out, slots[arity]);
      }
      default: {
        const ops::Operand operands[] = {operand(0), operand(1), operand(2), operand(3)};
        return call_elementwise(function->op->id, operands, out, slots[arity]);
      }
    }
  });
}

std::array<const char*, 5> names_of(ops::OpId id, int arity) {
  if (id == ops::OpId::where) return {"condition", "x1", "x2", "out"};
  if (id == ops::OpId::clip) return {"x", "min", "max", "out"};
  if (id == ops::OpId::nan_to_num) return {"x", "nan", "posinf", "neginf", "out"};
  if (arity == 1) return {"x", "out"};
  return {"x1", "x2", "out"};
}

void add(py::module_& m, const ops::ElementwiseOp& op, const char* what) {
  static auto* functions = new std::deque<ElementwiseFunction>;  // addresses stay
  ElementwiseFunction& f = functions->emplace_back();
  f.op = &op;
  f.names = names_of(op.id, op.arity);
  const auto arity = static_cast<std::size_t>(op.arity);
  const std::span<const char* const> operands(f.names.data(), arity);
  f.doc = cat(op.name, "(", join(operands, ", "), ", /, *, out=None)\n--\n\n", what,
              ", element by element.");
  f.signature = {op.name, {f.names.data(), arity + 1}, op.arity, op.arity, op.arity};
  f.definition = {op.name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)),
                  METH_FASTCALL | METH_KEYWORDS, f.doc.c_str()};
  add_function(m, &f.definition, py::capsule(&f));
}

// (common dtype, result dtype, functor) of an op for operands given as DataTypes or Python numbers.
py::tuple resolve(const std::string& name, const py::tuple& operands) {
  for (const ops::ElementwiseOp& op : ops::elementwise_ops()) {
    if (name != op.name) continue;
    std::vector<ops::Operand> typed;
    for (const py::handle operand : operands) {
      const auto number = scalar_from_python(operand, op.name);
      typed.push_back(number ? ops::Operand(*number)
                             : ops::Operand(Scalar(false), dtype_from_python(operand, op.name)));
    }
    const ops::Types types = ops::types_of(op, typed);
    const auto object = [](DType dtype) {
      return py::reinterpret_borrow<py::object>(dtype_object(dtype));
    };
    return py::make_tuple(object(types.common), object(types.result), op.functor);
  }
  throw InvalidArgument(cat("elementwise: there is no op '", name, "'"));
}

Array run_fused(ops::Fused& fused, const py::tuple& args, py::handle out) {
  std::vector<ops::Operand> operands;
  for (const py::handle argument : args)
    operands.push_back(require_operand(argument.ptr(), "fuse", "argument"));
  const Array* into = output_from_python(out.ptr(), "fuse");
  const BrieflyWithoutGil released;
  return fused.run(operands, into);
}

std::shared_ptr<ops::Fused> make_fused(const std::string& name, const std::string& source,
                                       const py::list& inputs, py::handle result) {
  std::vector<ops::Fused::Input> typed;
  for (const py::handle input : items_from_python(inputs)) {
    const auto pair = input.cast<py::tuple>();
    typed.push_back({dtype_from_python(pair[0], "fuse"), pair[1].cast<bool>()});
  }
  return std::make_shared<ops::Fused>(name, source, std::move(typed),
                                      dtype_from_python(result, "fuse"));
}

}  // namespace

void bind_elementwise(py::module_& m) {
  m.def("elementwise_types", resolve, py::arg("op"), py::arg("operands"),
        "(common dtype, result dtype, functor) for operands given as DataTypes or numbers.");
  m.def("jit_available", jit::jit_available, "Whether NVRTC can be had.");
  py::class_<ops::Fused, std::shared_ptr<ops::Fused>>(m, "FusedKernel",
                                                      "One kernel made of several ops.")
      .def(py::init(&make_fused), py::arg("name"), py::arg("source"), py::arg("inputs"),
           py::arg("result"))
      .def("run", run_fused, py::arg("args"), py::arg("out") = py::none(),
           "Runs it on arrays and numbers of the traced dtypes.")
      .def_property_readonly("source", &ops::Fused::source, "The generated CUDA C.");
  for (const ops::ElementwiseOp& op : ops::elementwise_ops())
    add(m, op, ops::op_list()[static_cast<std::size_t>(op.id)].doc);
}

}  // namespace gpk::bind
