// The extension module pygpukit._native.
#include <string_view>

#include "bindings/bind.h"
#include "bindings/call_errors.h"
#include "bindings/errors.h"
#include "bindings/guard.h"
#include "core/compile_scope.h"
#include "jit/bundle.h"
#include "jit/nvrtc.h"
#include "jit/prefetch.h"

// The packed PTX bundle, linked in by the build (empty when it was built without NVRTC).
extern "C" {
extern const char gpk_bundle_begin[];
extern const char gpk_bundle_end[];
}

namespace gpk::bind {
namespace {

// Python's search path, for pip's nvidia/ packages. Queried on the first NVRTC search.
std::vector<std::string> package_roots() {
  const WithGil gil;
  std::vector<std::string> roots;
  for (const py::handle entry : py::module_::import("sys").attr("path"))
    if (py::isinstance<py::str>(entry)) roots.push_back(entry.cast<std::string>());
  return roots;
}

// Runs before the driver and NVRTC libraries are unloaded.
void end_background_work() {
  jit::stop_prefetch();
  end_compiles();
}

}  // namespace
}  // namespace gpk::bind

PYBIND11_MODULE(gpk_native, m) {
  using namespace gpk::bind;
  m.doc() = "PyGPUkit's C++ core.";
  m.attr("__version__") = GPK_VERSION;
  gpk::jit::set_bundle(std::string_view(
      gpk_bundle_begin, static_cast<std::size_t>(gpk_bundle_end - gpk_bundle_begin)));
  gpk::jit::set_package_roots(package_roots);
  Py_AtExit(end_background_work);  // Python's last step
  register_errors();
  m.def("safe_repr", safe_repr, py::arg("object"),
        "repr(object) for a message: truncated, with a placeholder where __repr__ raises.");
  bind_dtype(m);
  bind_array_type(m);
  bind_stream(m);
  bind_graph(m);
  bind_array(m);
  bind_device(m);
  bind_memory(m);
  bind_pool(m);
  bind_ops(m);
  bind_elementwise(m);
  bind_fused(m);
  bind_reduction(m);
  bind_sorting(m);
  bind_indexing(m);
  bind_matmul(m);
  bind_contraction(m);
  bind_scaled_grouped(m);
  bind_matmul_plan(m);
  bind_random(m);
  bind_host(m);
  bind_nn(m);
  bind_rope_scaling(m);
  bind_attention(m);
  bind_moe(m);
  bind_quantize(m);
  bind_sampling(m);
  bind_kv_cache(m);
  bind_conv(m);
  bind_recurrent(m);
  bind_linalg(m);
  bind_fft(m);
  bind_audio(m);
  bind_llm(m);
  bind_llm_engine(m);
  bind_llm_decode(m);
  bind_llm_parts(m);
  bind_whisper(m);
  bind_safetensors(m);
  bind_torch_file(m);
  bind_kokoro(m);
  bind_interop(m);
  bind_cuda_interface(m);
  bind_view(m);
  bind_manipulation(m);
  bind_kernel_types(m);
  bind_jit(m);
  bind_sim(m);
  bind_floor(m);
  bind_trace(m);
  bind_transfer(m);
  bind_partition(m);
  bind_runtime(m);
  guard_classes(m);
  explain_calls(m);
}

// The entry point. pybind11's own takes the GIL of the main interpreter, which a subinterpreter
// that shares it already holds: it would deadlock.
PYBIND11_PLUGIN_IMPL(_native) {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return PyInit_gpk_native();
  PyErr_SetString(PyExc_ImportError,
                  "pygpukit: cannot be imported in a subinterpreter; use threads or processes");
  return nullptr;
}
