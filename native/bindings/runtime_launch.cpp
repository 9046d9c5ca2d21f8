#include "bindings/runtime_launch.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "bindings/convert.h"
#include "bindings/runtime_bind.h"
#include "core/check.h"
#include "core/context.h"
#include "core/gated_work.h"
#include "core/kernel_trace.h"

namespace gpk::bind {
namespace {

void set_dims(unsigned (&out)[3], const LaunchDims& dims, const char* what) {
  if (const auto* one = std::get_if<std::uint32_t>(&dims)) {
    out[0] = *one;
    return;
  }
  const auto& sizes = std::get<std::vector<std::uint32_t>>(dims);
  if (sizes.empty() || sizes.size() > 3)
    throw InvalidArgument(cat("launch: ", what, " has ", sizes.size(), " sizes, expected 1 to 3"));
  std::copy(sizes.begin(), sizes.end(), out);
}

}  // namespace

LaunchConfig launch_config(const LaunchDims& grid, const LaunchDims& block,
                           std::size_t shared_bytes) {
  LaunchConfig config;
  set_dims(config.grid, grid, "grid");
  set_dims(config.block, block, "block");
  config.shared_bytes = shared_bytes;
  return config;
}

void launch_raw(std::uint64_t function, const LaunchConfig& config, std::vector<std::uint64_t> args,
                Stream& stream) {
  if (stream.context() == nullptr)
    throw GpuUnavailable(cat("launch: ", function,
                             " is treated as a CUfunction, which CPU simulation lacks; pass a "
                             "Python callable or a jit kernel with reference="));
  if (function == 0) throw InvalidArgument("launch: the function's address is 0");
  const DeviceTraits& traits = stream.context()->traits();
  check_sizes("launch", config, traits, traits.max_threads_per_block);
  std::vector<void*> params;
  params.reserve(args.size());
  for (std::uint64_t& arg : args) params.push_back(&arg);
  stream.context()->make_current();
  GatedWork work(stream);
  stream.context()->note_launch("raw function", config.grid, config.block, stream.handle());
  TracedKernel traced("raw function", config.grid, config.block, stream);
  const auto address = static_cast<std::uintptr_t>(function);
  GPK_CU_CHECK(cuLaunchKernel, reinterpret_cast<cu::Function>(address), config.grid[0],
               config.grid[1], config.grid[2], config.block[0], config.block[1], config.block[2],
               static_cast<unsigned>(config.shared_bytes), stream.handle(), params.data(), nullptr);
  traced.submitted();
  work.submitted();
}

void bind_runtime_launch(py::module_& m) {
  m.def(
      "launch_function",
      [](std::uint64_t function, const LaunchDims& grid, const LaunchDims& block,
         std::uint32_t shared_mem, const std::vector<std::uint64_t>& args, py::handle stream) {
        const auto on = stream_from_python(stream, default_device(), "launch_function");
        const LaunchConfig config = launch_config(grid, block, shared_mem);
        const WithoutGil released;
        launch_raw(function, config, args, *on);
      },
      py::arg("function"), py::arg("grid"), py::arg("block"), py::arg("shared_mem"),
      py::arg("args"), py::arg("stream") = py::none(),
      "Launches a CUfunction given by its address; every argument is passed as 8 bytes.");
}

}  // namespace gpk::bind
