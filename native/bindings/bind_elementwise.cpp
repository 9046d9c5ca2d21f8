// The elementwise ops as functions, generated from their list.
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_index.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "bindings/operand.h"
#include "bindings/tracer.h"
#include "bindings/ufunc_object.h"
#include "ops/elementwise/options.h"

namespace gpk::bind {
namespace {

// A number may depend on the array beside it.
ops::Operand operand_of(ops::OpId id, const Arguments& args, int i, int arity) {
  PyObject* beside = args[i == 0 && arity > 1 ? 1 : 0].ptr();
  if (const auto found = operand_beside(args[i].ptr(), beside, id)) return *found;
  args.refuse(i, "a GPUArray or a number");
}

// where= and dtype= follow out= in the functions of one or two operands, which are ufuncs.
bool has_options(const Arguments& args, int arity) {
  return arity <= 2 && !(args.is_default(arity + 1) && args.is_default(arity + 2));
}

PyObject* call_with_options(ops::OpId id, std::span<const ops::Operand> operands, const Array* out,
                            const Arguments& args, int arity) {
  ops::ElementwiseOptions options;
  options.dtype = args.optional_dtype(arity + 2);
  PyObject* where = args[arity + 1].ptr();
  const std::optional<bool> flag = bool_from_python(where);
  std::optional<Array> none;
  if (is_array(where) || is_list(where)) {
    options.where = &args.array_like(arity + 1);
  } else if (flag == false) {
    Device device = default_device();
    for (const ops::Operand& operand : operands)
      if (operand.array != nullptr) device = operand.array->device();
    options.where = &none.emplace(from_numpy(where, device));
  } else if (!flag) {
    args.refuse(arity + 1, "True, False, a GPUArray of bool or a list of them");
  }
  std::optional<Array> result;
  {
    const BrieflyWithoutGil released;
    result = ops::run_elementwise(id, operands, out, options);
  }
  if (out != nullptr) return Py_NewRef(args[arity].ptr());
  return make_array_object(std::move(*result));
}

PyObject* run_operands(ops::OpId id, std::span<const ops::Operand> operands,
                       const Arguments& args) {
  const int arity = static_cast<int>(operands.size());
  PyObject* out = args[arity].ptr();
  const Array* into = output_from_python(out, args.op());
  if (has_options(args, arity)) [[unlikely]]
    return call_with_options(id, operands, into, args, arity);
  return call_elementwise(id, operands, into, out);
}

template <int... i>
PyObject* run(ops::OpId id, const Arguments& args, std::integer_sequence<int, i...>) {
  constexpr int arity = sizeof...(i);
  if (PyObject* tracer = find_tracer(args, arity)) [[unlikely]] {
    if (has_options(args, arity))
      args.refuse(arity + (args.is_default(arity + 1) ? 2 : 1), "no such option within fuse()");
    return record_elementwise(tracer, args, arity);
  }
  if ((is_list(args[i].ptr()) || ...) || !(is_array(args[i].ptr()) || ...)) [[unlikely]] {
    ListOperands listed(args, arity);
    const ops::Operand operands[] = {listed(args, i)...};
    return run_operands(id, operands, args);
  }
  const ops::Operand operands[] = {operand_of(id, args, i, arity)...};
  return run_operands(id, operands, args);
}

template <int arity>
void define_op(py::module_& m, const ops::ElementwiseOp& op) {
  const OpFunction& function = add_op(m, op.name, [id = op.id](const Arguments& args) {
    return run(id, args, std::make_integer_sequence<int, arity>());
  });
  if constexpr (arity <= 2) add_ufunc(m, function, arity);
}

// (condition, x1, x2, out): without x1 and x2 the coordinates of the true elements, as in NumPy.
PyObject* run_where(const Arguments& args) {
  if (!args.is_none(1) && !args.is_none(2))
    return run(ops::OpId::where, args, std::make_integer_sequence<int, 3>());
  if (!args.is_none(1) || !args.is_none(2))
    throw InvalidArgument("where: one of x1 and x2 was given, expected both or neither");
  if (!args.is_none(3)) args.refuse(3, "None: the number of true elements is not known");
  return nonzero_tuple(args.array_like(0), "where").release().ptr();
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

}  // namespace

void bind_elementwise(py::module_& m) {
  m.def("elementwise_types", resolve, py::arg("op"), py::arg("operands"),
        "(common dtype, result dtype, functor) for operands given as DataTypes or numbers.");
  bind_ufunc_type(m);
  for (const ops::ElementwiseOp& op : ops::elementwise_ops()) {
    if (op.id == ops::OpId::where) {
      add_op(m, op.name, run_where);
      continue;
    }
    switch (op.arity) {
      case 1: define_op<1>(m, op); break;
      case 2: define_op<2>(m, op); break;
      case 3: define_op<3>(m, op); break;
      default: define_op<4>(m, op); break;
    }
  }
}

}  // namespace gpk::bind
