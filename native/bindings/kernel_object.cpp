#include "bindings/kernel_object.h"

#include <structmember.h>

#include <cstddef>
#include <functional>

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/axes.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/errors.h"
#include "bindings/kernel_reference.h"
#include "bindings/made_resources.h"
#include "core/context.h"
#include "core/graph.h"
#include "ops/submit.h"

namespace gpk::bind {
namespace {

PyTypeObject* g_kernel_type = nullptr;
PyTypeObject* g_bound_type = nullptr;

struct KernelObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  std::shared_ptr<KernelState> state;
};

// One complete call, ready to be resubmitted.
struct BoundCall {
  std::shared_ptr<KernelState> state;
  std::unique_ptr<PackedArgs> args;
  std::vector<py::object> values;  // keeps arrays and, on the CPU, the arguments alive
  LaunchConfig config;
  std::shared_ptr<Stream> stream;  // null: the current one
  bool nothing_to_do = false;
};

struct BoundObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  BoundCall* call;
};

KernelState& state_ref(PyObject* self) { return *reinterpret_cast<KernelObject*>(self)->state; }

void submit(const KernelState& state, PackedArgs& args, const LaunchConfig& config,
            const std::shared_ptr<Stream>& stream, bool checked) {
  const BrieflyWithoutGil released;
  const ops::Submission submission(state.kernel->name(), args.arrays(), stream);
  if (checked) {
    launch_checked(*state.kernel, config, stream, args.params());
  } else {
    launch(*state.kernel, config, stream, args.params());
  }
}

PyObject* kernel_vectorcall(PyObject* self, PyObject* const* args, std::size_t nargsf,
                            PyObject* kwnames) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
    const auto& shared = reinterpret_cast<KernelObject*>(self)->state;
    const KernelState& state = *shared;
    constexpr std::size_t kInline = 24;
    PyObject* inline_values[kInline];
    std::unique_ptr<PyObject*[]> heap_values;
    PyObject** values = inline_values;
    if (state.args.size() > kInline) {
      heap_values = std::make_unique<PyObject*[]>(state.args.size());
      values = heap_values.get();
    }
    const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(nargsf));
    CallOptions options = match_arguments(state, args, count, kwnames, values);
    PackedArgs packed(state);
    packed.convert(values);
    if (!complete_config(state, packed, options)) Py_RETURN_NONE;
    if (!state.device.is_cuda()) {
      check_on_cpu(state, options.config);
      call_on_cpu(shared, values, options.config);
      Py_RETURN_NONE;
    }
    const auto& stream = options.stream ? options.stream : current_stream(state.device);
    submit(state, packed, options.config, stream, false);
    Py_RETURN_NONE;
  });
}

// kernel.bind(*args, **options): converts and checks now; calling the result only launches.
PyObject* kernel_bind(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
    auto call = std::make_unique<BoundCall>();
    call->state = reinterpret_cast<KernelObject*>(self)->state;
    const KernelState& state = *call->state;
    std::vector<PyObject*> values(state.args.size());
    CallOptions options =
        match_arguments(state, args, static_cast<std::size_t>(nargs), kwnames, values.data());
    for (PyObject* value : values)
      call->values.push_back(py::reinterpret_borrow<py::object>(value));
    call->args = std::make_unique<PackedArgs>(state);
    call->args->convert(values.data());
    call->nothing_to_do = !complete_config(state, *call->args, options);
    if (!call->nothing_to_do) {
      if (state.device.is_cuda()) {
        check_launch(*state.kernel, options.config);
      } else {
        check_on_cpu(state, options.config);
      }
    }
    call->config = options.config;
    call->stream = options.stream;
    auto* object = reinterpret_cast<BoundObject*>(g_bound_type->tp_alloc(g_bound_type, 0));
    if (object == nullptr) throw py::error_already_set();
    object->call = call.release();
    object->vectorcall = [](PyObject* bound, PyObject* const*, std::size_t nargsf,
                            PyObject* names) -> PyObject* {
      return guarded<>(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
        BoundCall& c = *reinterpret_cast<BoundObject*>(bound)->call;
        if (PyVectorcall_NARGS(nargsf) != 0 || (names != nullptr && PyTuple_GET_SIZE(names) != 0))
          throw InvalidArgument(InvalidArgument::Kind::kType,
                                cat(c.state->function, ": a bound kernel takes no arguments"));
        if (c.nothing_to_do) Py_RETURN_NONE;
        if (!c.state->device.is_cuda()) {
          std::vector<PyObject*> raw;
          for (const py::object& value : c.values) raw.push_back(value.ptr());
          call_on_cpu(c.state, raw.data(), c.config);
          Py_RETURN_NONE;
        }
        const auto& stream = c.stream ? c.stream : current_stream(c.state->device);
        submit(*c.state, *c.args, c.config, stream, true);
        Py_RETURN_NONE;
      });
    };
    return reinterpret_cast<PyObject*>(object);
  });
}

void kernel_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<KernelObject*>(self)->state.~shared_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}

void bound_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<BoundObject*>(self)->call;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* allocate_kernel(PyTypeObject* type, std::shared_ptr<KernelState> state) {
  auto* object = reinterpret_cast<KernelObject*>(type->tp_alloc(type, 0));
  if (object == nullptr) throw py::error_already_set();
  new (&object->state) std::shared_ptr<KernelState>(std::move(state));
  object->vectorcall = kernel_vectorcall;
  return reinterpret_cast<PyObject*>(object);
}

std::optional<std::vector<std::string>> strings_from_python(PyObject* list, const char* argument) {
  if (list == Py_None) return std::nullopt;
  try {
    if (!PyUnicode_Check(list)) {
      auto strings = py::handle(list).cast<std::vector<std::string>>();
      for (const std::string& one : strings)
        if (one.find('\0') != std::string::npos)
          throw InvalidArgument(cat("jit: ", argument, " has a NUL character"));
      return strings;
    }
  } catch (const py::cast_error&) {  // not strings; reported below
  }
  throw InvalidArgument(
      InvalidArgument::Kind::kType,
      cat("jit: ", argument, " is ", safe_repr(list), ", expected a list of strings"));
}

std::string source_text(PyObject* object, const char* argument) {
  const auto text = text_from_python(object);
  if (!text)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat("jit: ", argument, " is ", safe_repr(object),
                              ", expected a str that is valid Unicode"));
  if (text->find('\0') != std::string::npos)
    throw InvalidArgument(cat("jit: ", argument, " has a NUL character"));
  return *text;
}

// JITKernel(source, func_name, options=None, block_size=256, *, reference=None,
//           include_folders=None)
PyObject* kernel_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
    static const char* keywords[] = {"source",    "func_name",       "options", "block_size",
                                     "reference", "include_folders", nullptr};
    PyObject* given_source = nullptr;
    PyObject* given_function = nullptr;
    PyObject* options = Py_None;
    PyObject* given_block = nullptr;
    PyObject* reference = Py_None;
    PyObject* folders = Py_None;
    if (PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OO$OO:JITKernel",
                                    const_cast<char**>(keywords), &given_source, &given_function,
                                    &options, &given_block, &reference, &folders) == 0)
      throw py::error_already_set();
    const std::string source = source_text(given_source, "source");
    const std::string function = source_text(given_function, "func");
    const std::int64_t block_size =
        given_block == nullptr ? 256 : int_from_python(given_block, "jit", "block_size");
    const jit::Signature signature =
        check_kernel(source, function, block_size, reference);  // before paying for a compile
    jit::CompileRequest request;
    request.name = cat(function, ".cu");
    request.source = source;
    request.options = strings_from_python(options, "options").value_or(std::vector<std::string>());
    request.name_expressions = {function};
    request.include_folders = strings_from_python(folders, "include_folders");
    return allocate_kernel(type, make_kernel_state(build_program(request), signature, function,
                                                   static_cast<int>(block_size),
                                                   py::reinterpret_borrow<py::object>(reference)));
  });
}

PyObject* kernel_repr(PyObject* self) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    const KernelState& state = state_ref(self);
    return PyUnicode_FromString(cat("JITKernel(", state.function, ", ",
                                    state.program->compiled() ? "compiled" : "not compiled", ", ",
                                    to_string(state.device), ")")
                                    .c_str());
  });
}

PyObject* bound_repr(PyObject* self) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    const BoundCall& call = *reinterpret_cast<BoundObject*>(self)->call;
    return PyUnicode_FromString(cat("BoundKernel(", call.state->function, ")").c_str());
  });
}

template <class Getter>
PyObject* get(PyObject* self, const Getter& getter) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    auto value = getter(state_ref(self));
    if constexpr (std::is_base_of_v<py::object, decltype(value)>) {
      return value.release().ptr();
    } else {
      return py::cast(std::move(value)).release().ptr();
    }
  });
}

PyObject* get_attributes(PyObject* self, void*) {
  return get(self, [](const KernelState& state) {
    py::dict d;
    if (!state.kernel && !state.host_kernel) return d;
    const KernelAttributes& a =
        state.kernel ? state.kernel->attributes() : state.host_kernel->attributes();
    d["registers"] = a.num_regs;
    d["local_bytes"] = a.local_bytes;
    d["shared_bytes"] = a.shared_bytes;
    d["const_bytes"] = a.const_bytes;
    d["max_threads_per_block"] = a.max_threads_per_block;
    d["ptx_version"] = a.ptx_version;
    d["binary_version"] = a.binary_version;
    return d;
  });
}

PyObject* get_signature(PyObject* self, void*) {
  return get(self, [](const KernelState& state) {
    py::list params;
    for (const ArgSpec& spec : state.args)
      params.append(py::make_tuple(spec.name == nullptr
                                       ? py::object(py::none())
                                       : py::reinterpret_borrow<py::object>(spec.name),
                                   spec.type, spec.bytes));
    return params;
  });
}

PyObject* get_ptx(PyObject* self, void*) {
  return get(self, [](const KernelState& state) {
    const WithoutGil released;
    return state.program->ptx();
  });
}

PyObject* get_source(PyObject* self, void*) {
  return get(self, [](const KernelState& s) { return s.program->request().source; });
}
PyObject* get_options(PyObject* self, void*) {
  return get(self, [](const KernelState& s) { return s.program->request().options; });
}
PyObject* get_name(PyObject* self, void*) {
  return get(self, [](const KernelState& s) { return s.function; });
}
PyObject* get_block_size(PyObject* self, void*) {
  return get(self, [](const KernelState& s) { return s.block_size; });
}
PyObject* get_is_compiled(PyObject* self, void*) {
  return get(self, [](const KernelState& s) { return s.program->compiled(); });
}

PyObject* suggested_block_size(PyObject* self, PyObject* argument) {
  return get(self, [&](const KernelState& state) {
    if (!state.kernel && !state.host_kernel) return state.block_size;
    const std::size_t shared = argument == nullptr ? 0 : py::handle(argument).cast<std::size_t>();
    if (state.host_kernel) return state.host_kernel->suggested_block_size(shared);
    return state.kernel->suggested_block_size(shared);
  });
}

PyObject* call_suggested(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  return suggested_block_size(self, nargs > 0 ? args[0] : nullptr);
}

PyGetSetDef g_kernel_getset[] = {
    {"source", get_source, nullptr, "The CUDA C source.", nullptr},
    {"name", get_name, nullptr, "Name of the function.", nullptr},
    {"options", get_options, nullptr, "Compiler flags as given.", nullptr},
    {"block_size", get_block_size, nullptr, "Threads per block where a call gives no block=.",
     nullptr},
    {"is_compiled", get_is_compiled, nullptr, "False on CPU simulation without NVRTC.", nullptr},
    {"ptx", get_ptx, nullptr, "PTX of the source, compiled on demand.", nullptr},
    {"attributes", get_attributes, nullptr,
     "Registers (0 in the simulator), local, shared and constant bytes, max threads; empty where "
     "reference= runs.",
     nullptr},
    {"signature", get_signature, nullptr, "Parameters as (name, type, bytes).", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyCFunction as_method(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t,
                                            PyObject*)) noexcept {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}
PyCFunction as_method(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) noexcept {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef g_kernel_methods[] = {
    {"bind", as_method(kernel_bind), METH_FASTCALL | METH_KEYWORDS,
     "bind(self, *args: object, **kwargs: object) -> BoundKernel\n\nConverts and checks the "
     "arguments now; calling the result only launches."},
    {"get_suggested_block_size", as_method(call_suggested), METH_FASTCALL,
     "get_suggested_block_size(self, dynamic_smem: int = 0, /) -> int\n\nBlock size with the best "
     "occupancy."},
    {nullptr, nullptr, 0, nullptr},
};

constexpr const char* kKernelDoc =
    "JITKernel(source, func_name, options=None, block_size=256, *, reference=None, "
    "include_folders=None)\n\n"
    "A compiled CUDA C kernel. Calling it launches it: arguments by position or by the parameter "
    "names of the CUDA signature; launch options grid=, block=, shared_mem=, cluster=, stream=, "
    "cooperative=, programmatic=. Without grid= a 1-D grid covers the largest array.";

PyMemberDef g_kernel_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(KernelObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyMemberDef g_bound_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(BoundObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot g_kernel_slots[] = {
    {Py_tp_doc, const_cast<char*>(kKernelDoc)},
    {Py_tp_new, reinterpret_cast<void*>(kernel_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(kernel_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_repr, reinterpret_cast<void*>(kernel_repr)},
    {Py_tp_getset, g_kernel_getset},
    {Py_tp_methods, g_kernel_methods},
    {Py_tp_members, g_kernel_members},
    {0, nullptr},
};
PyType_Slot g_bound_slots[] = {
    {Py_tp_doc, const_cast<char*>("A kernel with its arguments; calling it only launches.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(bound_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_repr, reinterpret_cast<void*>(bound_repr)},
    {Py_tp_members, g_bound_members},
    {0, nullptr},
};

PyType_Spec g_kernel_spec = {"pygpukit._native.JITKernel", static_cast<int>(sizeof(KernelObject)),
                             0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, g_kernel_slots};
PyType_Spec g_bound_spec = {
    "pygpukit._native.BoundKernel", static_cast<int>(sizeof(BoundObject)), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    g_bound_slots};

PyTypeObject* make_type(py::module_& m, const char* name, PyType_Spec& spec) {
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw py::error_already_set();
  m.attr(name) = py::reinterpret_borrow<py::object>(type);
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

PyObject* make_kernel_object(std::shared_ptr<KernelState> state) {
  return allocate_kernel(g_kernel_type, std::move(state));
}

std::shared_ptr<jit::Program> build_program(const jit::CompileRequest& request) {
  const WithoutGil released;
  auto program = jit::Program::build(request, default_device());
  note_made("module", program, program->image_bytes());
  return program;
}

void bind_kernel_types(py::module_& m) {
  g_kernel_type = make_type(m, "JITKernel", g_kernel_spec);
  g_bound_type = make_type(m, "BoundKernel", g_bound_spec);
}

}  // namespace gpk::bind
