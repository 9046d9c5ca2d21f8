#include "bindings/output.h"

#include "base/error.h"
#include "base/text.h"

namespace gpk::bind {

const Array* output_from_python(PyObject* object, const char* op) {
  if (object == nullptr || object == Py_None) return nullptr;
  if (is_array(object)) return &array_of(object);
  bad_argument(op, "out", object, "a GPUArray");
}

}  // namespace gpk::bind
