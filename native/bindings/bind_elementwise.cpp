// The elementwise ops as functions, generated from their list.
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "bindings/operand.h"
#include "ops/elementwise/fused.h"

namespace gpk::bind {
namespace {

// Array-like objects that define _elementwise(name, operands), such as the tracers of fuse(), take
// over the call.
PyObject* find_expression(const Arguments& args, int arity) {
  static PyObject* const name = PyUnicode_InternFromString("_elementwise");
  for (int i = 0; i < arity; ++i) {
    PyObject* object = args[i].ptr();
    if (is_array(object) || PyFloat_CheckExact(object) || PyLong_CheckExact(object)) continue;
    if (_PyType_Lookup(Py_TYPE(object), name) != nullptr) return object;
  }
  return nullptr;
}

PyObject* defer(PyObject* expression, const Arguments& args, int arity) {
  py::tuple operands(arity);
  for (int i = 0; i < arity; ++i)
    operands[static_cast<std::size_t>(i)] = py::reinterpret_borrow<py::object>(args[i]);
  return py::handle(expression).attr("_elementwise")(args.op(), operands).release().ptr();
}

template <int... i>
PyObject* run(ops::OpId id, const Arguments& args, std::integer_sequence<int, i...>) {
  constexpr int arity = sizeof...(i);
  if (PyObject* expression = find_expression(args, arity)) [[unlikely]]
    return defer(expression, args, arity);
  const ops::Operand operands[] = {require_operand(args[i].ptr(), args.op(), args.name(i))...};
  PyObject* out = args[arity].ptr();
  return call_elementwise(id, operands, output_from_python(out, args.op()), out);
}

template <int arity>
void define_op(py::module_& m, const ops::ElementwiseOp& op) {
  add_op(m, op.name, [id = op.id](const Arguments& args) {
    return run(id, args, std::make_integer_sequence<int, arity>());
  });
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
    const ops::elementwise::Types types = ops::elementwise::types_of(op, typed);
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
  m.def("jit_available", jit::jit_available, "Whether NVRTC is available.");
  py::class_<ops::Fused, std::shared_ptr<ops::Fused>>(m, "FusedKernel",
                                                      "One kernel generated from several ops.")
      .def(py::init(&make_fused), py::arg("name"), py::arg("source"), py::arg("inputs"),
           py::arg("result"))
      .def("run", run_fused, py::arg("args"), py::arg("out") = py::none(),
           "Runs it on arrays and numbers of the traced dtypes.")
      .def_property_readonly("source", &ops::Fused::source, "The generated CUDA C.");
  for (const ops::ElementwiseOp& op : ops::elementwise_ops()) {
    switch (op.arity) {
      case 1: define_op<1>(m, op); break;
      case 2: define_op<2>(m, op); break;
      case 3: define_op<3>(m, op); break;
      default: define_op<4>(m, op); break;
    }
  }
}

}  // namespace gpk::bind
