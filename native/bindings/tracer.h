// Objects that record ops instead of running them, as the tracers of fuse() do.
#pragma once

#include "bindings/arguments.h"
#include "bindings/op_function.h"
#include "bindings/python.h"

namespace gpk::bind {

// Whether its type has _elementwise(op, operands) and _row_op(op, arguments).
bool is_tracer(PyObject* object);

// The first tracer among the first `count` arguments; nullptr when there is none.
PyObject* find_tracer(const Arguments& args, int count);

// New references: what the tracer gives for the first `arity` arguments, or for all by name.
PyObject* record_elementwise(PyObject* tracer, const Arguments& args, int arity);
PyObject* record_row_op(PyObject* tracer, const Arguments& args);

// define() for an op that a tracer as first argument takes over.
template <class Call>
void define_row_op(py::module_& m, const char* name, Call call) {
  define(m, name, [call = std::move(call)](const Arguments& args) -> PyObject* {
    if (is_tracer(args[0].ptr())) [[unlikely]]
      return record_row_op(args[0].ptr(), args);
    return call(args);
  });
}

}  // namespace gpk::bind
