#include "bindings/op_function.h"

#include <deque>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "bindings/errors.h"

namespace gpk::bind {
namespace {

PyObject* call_op(PyObject* self, PyObject* const* args, Py_ssize_t num_args, PyObject* keywords) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    const auto* function = static_cast<const OpFunction*>(PyCapsule_GetPointer(self, nullptr));
    return function->call(Arguments(function->signature, args, num_args, keywords));
  });
}

}  // namespace

const ops::OpInfo& declaration_of(const char* name) {
  for (const auto* list : {&ops::op_list(), &ops::function_list()})
    for (const ops::OpInfo& info : *list)
      if (std::string_view(info.name) == name) return info;
  throw Error(cat(name, " is not in ops/op_list.def"));
}

const OpFunction& add_op(py::module_& m, const char* name, OpCall call) {
  static auto* functions = new std::deque<OpFunction>;  // stable addresses
  const ops::OpInfo& info = declaration_of(name);
  OpFunction& f =
      functions->emplace_back(OpFunction{{name, info.signature},
                                         std::move(call),
                                         cat(name, info.signature, "\n--\n\n", info.doc),
                                         {}});
  f.definition = {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_op)),
                  METH_FASTCALL | METH_KEYWORDS, f.doc.c_str()};
  add_function(m, &f.definition, py::capsule(&f));
  return f;
}

}  // namespace gpk::bind
