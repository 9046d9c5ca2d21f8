// The elementwise ops as functions, made from the list of them.
#include <array>
#include <deque>

#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/errors.h"
#include "bindings/fast_call.h"
#include "bindings/operand.h"
#include "core/text.h"

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

PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t num_args, PyObject* keywords) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    const auto* function =
        static_cast<const ElementwiseFunction*>(PyCapsule_GetPointer(self, nullptr));
    const auto arity = static_cast<std::size_t>(function->op->arity);
    PyObject* slots[5];
    bind_arguments(function->signature, args, num_args, keywords, slots);
    const char* op = function->op->name;
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

}  // namespace

void bind_elementwise(py::module_& m) {
  for (const ops::ElementwiseOp& op : ops::elementwise_ops())
    add(m, op, ops::op_list()[static_cast<std::size_t>(op.id)].doc);
}

}  // namespace gpk::bind
