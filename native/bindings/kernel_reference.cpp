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

std::function<void()> reference_call(const KernelState& state, PyObject* const* values) {
  py::tuple args(state.args.size());
  for (std::size_t i = 0; i < state.args.size(); ++i)
    args[i] = is_array(values[i]) ? numpy_view(array_of(values[i]))
                                  : py::reinterpret_borrow<py::object>(values[i]);
  return [kept = shared_python(std::move(args)), function = shared_python(state.reference)] {
    const WithGil gil;
    call_function(*function, *kept);
  };
}

std::string describe(const Array& array, const ArgSpec& spec) {
  const char* name = spec.name == nullptr ? "?" : PyUnicode_AsUTF8(spec.name);
  return cat("argument '", name, "' (", gpk::name(array.dtype()), ' ', to_string(array.shape()),
             ')');
}

// One launch in the simulator, with everything it points to.
struct SimulatedCall {
  std::shared_ptr<KernelState> state;
  std::unique_ptr<PackedArgs> args;
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<jit::HostRange> ranges;
  LaunchConfig config;
};

std::function<void()> simulated_call(const std::shared_ptr<KernelState>& state,
                                     PyObject* const* values, const LaunchConfig& config) {
  if (state->host_problem) std::rethrow_exception(state->host_problem);
  auto call = std::make_shared<SimulatedCall>();
  call->state = state;
  call->config = config;
  call->args = std::make_unique<PackedArgs>(*state);
  call->args->convert(values);
  for (std::size_t i = 0; i < state->args.size(); ++i) {
    if (!is_array(values[i])) continue;
    const Array& array = array_of(values[i]);
    const std::shared_ptr<Buffer>& buffer = array.buffer();
    call->buffers.push_back(buffer);
    call->ranges.push_back(
        {buffer->address(), buffer->bytes(), describe(array, state->args[i]), buffer.get()});
  }
  return
      [call] { call->state->host_kernel->run(call->config, call->ranges, call->args->params()); };
}

}  // namespace

std::function<void()> host_call(const std::shared_ptr<KernelState>& state, PyObject* const* values,
                                const LaunchConfig& config) {
  return state->reference.is_none() ? simulated_call(state, values, config)
                                    : reference_call(*state, values);
}

void call_on_cpu(const std::shared_ptr<KernelState>& state, PyObject* const* values,
                 const LaunchConfig& config) {
  auto call = host_call(state, values, config);
  if (Graph* graph = capturing_graph(); graph != nullptr && !graph->device().is_cuda()) {
    graph->record_host_launch(config, state, std::move(call));
  } else {
    const WithoutGil released;
    call();
  }
}

void check_on_cpu(const KernelState& state, const LaunchConfig& config) {
  const DeviceTraits& traits = device_traits(state.device);
  const int max_threads = state.host_kernel ? state.host_kernel->attributes().max_threads_per_block
                                            : traits.max_threads_per_block;
  check_sizes(state.function.c_str(), config, traits, max_threads);
  check_cluster_sizes(state.function.c_str(), config);
}

}  // namespace gpk::bind
