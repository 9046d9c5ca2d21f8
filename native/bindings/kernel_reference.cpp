#include "bindings/kernel_reference.h"

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/convert.h"
#include "core/graph.h"

namespace gpk::bind {
namespace {

// A Python object that C++ may release on any thread.
template <class T>
std::shared_ptr<T> shared_python(T object) {
  return {new T(std::move(object)), [](T* p) {
            if (!python_runs()) return;
            const WithGil gil;
            delete p;
          }};
}

}  // namespace

std::function<void()> reference_call(const KernelState& state, PyObject* const* values) {
  if (state.reference.is_none())
    throw GpuUnavailable(
        cat(state.function, ": a custom kernel needs a GPU (", default_device_choice().reason,
            "). To run this program on CPU simulation, pass jit(..., reference=function): a Python "
            "function with the kernel's parameters, called with NumPy views of the arrays"));
  py::tuple args(state.args.size());
  for (std::size_t i = 0; i < state.args.size(); ++i)
    args[i] = is_array(values[i]) ? numpy_view(array_of(values[i]))
                                  : py::reinterpret_borrow<py::object>(values[i]);
  return [kept = shared_python(std::move(args)), function = shared_python(state.reference)] {
    const WithGil gil;
    call_function(*function, *kept);
  };
}

void call_reference(const std::shared_ptr<KernelState>& state, PyObject* const* values,
                    const LaunchConfig& config) {
  auto call = reference_call(*state, values);
  if (Graph* graph = capturing_graph(); graph != nullptr && !graph->device().is_cuda()) {
    graph->record_host_launch(config, state, std::move(call));
  } else {
    call();
  }
}

void check_on_cpu(const KernelState& state, const LaunchConfig& config) {
  const DeviceTraits& traits = device_traits(state.device);
  check_sizes(state.function.c_str(), config, traits, traits.max_threads_per_block);
}

}  // namespace gpk::bind
