// The functions of ops/op_list.def in the module: name, signature and docstring come from the line;
// arguments use the fast calling convention.
#pragma once

#include <functional>
#include <type_traits>

#include "bindings/arguments.h"
#include "bindings/array_object.h"
#include "bindings/output.h"
#include "ops/op.h"

namespace gpk::bind {

using OpCall = std::function<PyObject*(const Arguments&)>;

// The line of `name`. Throws Error when there is none.
const ops::OpInfo& declaration_of(const char* name);

// A function of the module; lives as long as the process.
struct OpFunction {
  FastSignature signature;
  OpCall call;
  std::string doc;
  PyMethodDef definition;
};

// Adds the function of that line. `call` gets the arguments and returns a new reference.
const OpFunction& add_op(py::module_& m, const char* name, OpCall call);

// Same for a call that returns an Array, a py::object or nothing.
template <class Call>
void define(py::module_& m, const char* name, Call call) {
  add_op(m, name, [call = std::move(call)](const Arguments& args) -> PyObject* {
    using Result = std::invoke_result_t<const Call&, const Arguments&>;
    if constexpr (std::is_void_v<Result>) {
      call(args);
      return Py_NewRef(Py_None);
    } else if constexpr (std::is_same_v<Result, Array>) {
      return make_array_object(call(args));
    } else if constexpr (std::is_same_v<Result, PyObject*>) {
      return call(args);
    } else {
      return py::object(call(args)).release().ptr();
    }
  });
}

// call(out as std::optional<Array>), where argument `i` is out=. Returns the given out=, or the
// result. The GIL is released only briefly: `call` does not block.
template <class Call>
PyObject* run_into(const Arguments& args, int i, const Call& call) {
  const std::optional<Array> into = args.out(i);
  std::optional<Array> result;
  {
    const BrieflyWithoutGil released;
    result = call(into);
  }
  if (into) return Py_NewRef(args[i].ptr());
  return make_array_object(std::move(*result));
}

}  // namespace gpk::bind
