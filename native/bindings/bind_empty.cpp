// empty() by the fast calling convention: programs that reuse memory call it in their inner loops.
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/errors.h"
#include "bindings/fast_call.h"

namespace gpk::bind {
namespace {

constexpr const char* kNames[] = {"shape", "dtype", "device"};
const FastSignature kSignature = {"empty", kNames, 2, 0, 1};

PyObject* empty(PyObject*, PyObject* const* args, Py_ssize_t num_args, PyObject* keywords) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    PyObject* slots[3];
    bind_arguments(kSignature, args, num_args, keywords, slots);
    const auto given = [&](int i) { return slots[i] != nullptr && slots[i] != Py_None; };
    Dims shape = shape_from_python(slots[0], "empty");
    const DType dtype = given(1) ? dtype_from_python(slots[1], "empty") : DType::kFloat32;
    const Device device = given(2) ? device_from_python(slots[2], "empty") : default_device();
    std::optional<Array> result;
    {
      const BrieflyWithoutGil released;
      result = Array::empty(std::move(shape), dtype, device, "empty");
    }
    return make_array_object(std::move(*result));
  });
}

PyMethodDef g_empty = {"empty", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(empty)),
                       METH_FASTCALL | METH_KEYWORDS,
                       "empty(shape, dtype=None, *, device=None)\n--\n\nA new array with undefined "
                       "contents; float32 unless `dtype` says otherwise."};

}  // namespace

void bind_empty(py::module_& m) { add_function(m, &g_empty, py::none()); }

}  // namespace gpk::bind
