// The ops as functions, and the list of them.
#include <pybind11/complex.h>

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "jit/builtin.h"
#include "ops/cpu_backend.h"
#include "ops/op.h"

namespace gpk::bind {
namespace {

py::object argument_view(const ops::CpuArg& argument) {
  struct Convert {
    py::object operator()(const Array& array) const { return numpy_view(array); }
    py::object operator()(const Scalar& scalar) const {
      return std::visit([](const auto& value) -> py::object { return py::cast(value); }, scalar);
    }
    py::object operator()(const Dims& dims) const { return to_tuple(dims); }
    py::object operator()(DType dtype) const { return numpy_dtype(dtype); }
    py::object operator()(const std::string& text) const { return py::str(text); }
    py::object operator()(std::monostate) const { return py::none(); }
  };
  return std::visit(Convert{}, argument);
}

py::object output_views(const std::vector<Array>& outs) {
  if (outs.size() == 1) return numpy_view(outs[0]);
  py::tuple views(outs.size());
  for (std::size_t i = 0; i < outs.size(); ++i) views[i] = numpy_view(outs[i]);
  return views;
}

// pygpukit._reference.<op> and how it was called last. Names are static strings, nearly always the
// same ones, so that a call compares addresses.
struct Reference {
  std::string op;
  PyObject* function = nullptr;
  std::vector<const char*> options;
  py::tuple keywords;  // the options' names, then "out"
};

py::tuple keywords_of(const ops::CpuCall& call) {
  py::tuple names(call.options.size() + 1);
  Py_ssize_t at = 0;
  for (const auto& [name, value] : call.options)
    PyTuple_SET_ITEM(names.ptr(), at++, PyUnicode_InternFromString(name));
  PyTuple_SET_ITEM(names.ptr(), at, PyUnicode_InternFromString("out"));
  return names;
}

const Reference& reference_of(const ops::CpuCall& call) {
  static auto* known = new std::unordered_map<const char*, Reference>;  // under the GIL
  Reference& found = (*known)[call.op];
  const bool is_new = found.op != call.op;
  if (is_new) {
    const py::object function = py::module_::import("pygpukit._reference").attr(call.op);
    found.op = call.op;
    found.function = Py_NewRef(function.ptr());
  }
  const auto same = [](const char* name, const auto& option) { return name == option.first; };
  if (is_new || !std::equal(found.options.begin(), found.options.end(), call.options.begin(),
                            call.options.end(), same)) {
    found.keywords = keywords_of(call);
    found.options.clear();
    for (const auto& option : call.options) found.options.push_back(option.first);
  }
  return found;
}

// A context of the calling thread in which NumPy ignores floating-point errors, as GPUs do.
// Entering it costs a tenth of numpy.errstate. Borrowed.
PyObject* quiet_context() {
  PyObject* thread = PyThreadState_GetDict();
  static PyObject* const key = PyUnicode_InternFromString("pygpukit.quiet_context");
  if (PyObject* found = PyDict_GetItemWithError(thread, key)) return found;
  const py::object context = py::module_::import("contextvars").attr("Context")();
  context.attr("run")(py::module_::import("numpy").attr("seterr"), py::arg("all") = "ignore");
  if (PyDict_SetItem(thread, key, context.ptr()) < 0) throw py::error_already_set();
  return context.ptr();
}

class QuietScope {
 public:
  QuietScope() : context_(quiet_context()) {
    if (PyContext_Enter(context_) == 0) return;
    clear_if(PyExc_RuntimeError);  // entered already, further up
    context_ = nullptr;
  }
  ~QuietScope() {
    if (context_ != nullptr) PyContext_Exit(context_);
  }
  QuietScope(const QuietScope&) = delete;
  QuietScope& operator=(const QuietScope&) = delete;

 private:
  PyObject* context_;
};

// pygpukit._reference.<op>(*args, **options, out=views)
void call_reference(const ops::CpuCall& call) {
  const WithGil gil;
  std::vector<py::object> values;
  values.reserve(call.args.size() + call.options.size() + 1);
  for (const ops::CpuArg& argument : call.args) values.push_back(argument_view(argument));
  for (const auto& [name, value] : call.options) values.push_back(argument_view(value));
  values.push_back(output_views(call.outs));
  // What follows may call this function again, which may change the record.
  const Reference& reference = reference_of(call);
  PyObject* const function = reference.function;
  const py::tuple keywords = reference.keywords;
  const QuietScope quiet;
  static_assert(sizeof(py::object) == sizeof(PyObject*));
  const auto result = py::reinterpret_steal<py::object>(
      PyObject_Vectorcall(function, reinterpret_cast<PyObject* const*>(values.data()),
                          call.args.size(), keywords.ptr()));
  if (!result) throw py::error_already_set();
}

ops::CpuArg reference_argument(py::handle value) {
  if (is_array(value.ptr())) return array_of(value.ptr());
  if (value.is_none()) return std::monostate{};
  if (auto text = text_from_python(value)) return std::move(*text);
  if (const auto scalar = scalar_from_python(value, "run_reference")) return *scalar;
  bad_argument("run_reference", "args", value.ptr(), "arrays, numbers, str or None");
}

// For composites with a definition of their own on the CPU. They check all arguments before.
void run_reference(const std::string& name, const py::tuple& args, const py::object& out) {
  static auto* names = new std::set<std::string>;  // stable addresses, under the GIL
  ops::CpuCall call{names->insert(name).first->c_str(), {}, {}, {}};
  for (const py::handle value : args) call.args.push_back(reference_argument(value));
  if (!is_array(out.ptr())) bad_argument("run_reference", "out", out.ptr(), "a GPUArray");
  call.outs.push_back(array_of(out.ptr()));
  for (const Array& array : call.outs)
    if (array.device().is_cuda()) throw InvalidArgument("run_reference: out is on a GPU");
  ops::run_on_cpu(std::move(call));
}

py::list list_ops() {
  py::list rows;
  for (const ops::OpInfo& op : ops::op_list())
    rows.append(py::make_tuple(op.name, op.family, op.doc));
  return rows;
}

py::list list_kernels() {
  py::list rows;
  for (const jit::KernelSpec& spec : ops::all_kernel_specs())
    rows.append(py::make_tuple(spec.op, spec.file, spec.expression, py::cast(spec.exact_sms),
                               spec.bundled));
  return rows;
}

// Compiles built-in kernels of one file (all, or those named) for an architecture; needs NVRTC but
// no GPU.
py::tuple compile_file(const std::string& file, int sm, bool ptx,
                       const std::vector<std::string>& options,
                       const std::vector<std::string>& only) {
  jit::CompileRequest request;
  std::vector<std::string> expressions;
  for (const jit::KernelSpec& spec : ops::all_kernel_specs()) {
    const auto& exact = spec.exact_sms;
    if (file != spec.file ||
        (!exact.empty() && std::find(exact.begin(), exact.end(), sm) == exact.end()) ||
        (!only.empty() && std::find(only.begin(), only.end(), spec.expression) == only.end()))
      continue;
    if (expressions.empty()) request = jit::compile_request(spec, sm);
    expressions.push_back(spec.expression);
  }
  if (expressions.empty())
    throw InvalidArgument(cat("compile_builtin: no kernels for sm ", sm, " in '", file, "'"));
  request.name_expressions = std::move(expressions);
  request.want_ptx = ptx;
  request.options = options;
  jit::CompiledImage image;
  {
    const WithoutGil released;
    image = jit::compile(request);
  }
  return py::make_tuple(py::bytes(image.bytes), image.log);
}

py::list list_functions() {
  py::list rows;
  for (const auto* list : {&ops::op_list(), &ops::function_list()})
    for (const ops::OpInfo& op : *list)
      rows.append(py::make_tuple(op.name, op.module, op.signature));
  return rows;
}

}  // namespace

void bind_ops(py::module_& m) {
  m.def("function_list", list_functions, "Every line of op_list.def as (name, module, signature).");
  m.def("op_list", list_ops, "Every op as (name, family, description).");
  m.def("builtin_kernels", list_kernels,
        "Every built-in kernel variant as (op, file, expression, exact architectures, bundled).");
  m.def("compile_builtin", compile_file, py::arg("file"), py::arg("sm"), py::arg("ptx") = false,
        py::arg("options") = std::vector<std::string>(),
        py::arg("expressions") = std::vector<std::string>(),
        "Compiles built-in kernels of a file, all or those listed, for an architecture: (image, "
        "log).");
  m.def("run_reference", run_reference, py::arg("name"), py::arg("args"), py::arg("out"),
        "pygpukit._reference.<name>(*args, out=out) on views of arrays on the CPU, which the "
        "caller has checked; part of a graph like an op.");
  ops::set_cpu_backend(call_reference);
}

}  // namespace gpk::bind
