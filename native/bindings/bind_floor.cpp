// The driver's own launch cost, measured in this process: the floor for our calls.
#include <chrono>

#include "base/error.h"
#include "bindings/bind.h"
#include "core/check.h"
#include "core/context.h"
#include "jit/program.h"

namespace gpk::bind {
namespace {

constexpr const char* kEmptyKernel =
    "extern \"C\" __global__ void floor_kernel(float* x, float f, int n) {}";

std::shared_ptr<Kernel> empty_kernel() {
  jit::CompileRequest request;
  request.name = "floor.cu";
  request.source = kEmptyKernel;
  request.name_expressions = {"floor_kernel"};
  const Device device = default_device();
  if (!device.is_cuda()) throw GpuUnavailable("floor: the driver's cost needs a GPU");
  static auto program = jit::Program::build(request, device);
  return program->kernel("floor_kernel");
}

template <class Body>
double microseconds_each(int iterations, const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < iterations; ++i) body();
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / iterations;
}

// Best of `repeats` loops of `iterations` cuLaunchKernel calls with three arguments, in us.
double launch_floor(int iterations, int repeats) {
  const auto kernel = empty_kernel();
  const WithoutGil released;
  Context& context = kernel->context();
  context.make_current();
  const cu::DriverApi& api = driver();
  cu::DevicePtr x = 0;
  float f = 0.5f;
  int n = 1;
  void* params[] = {&x, &f, &n};
  double best = 1e30;
  for (int r = 0; r < repeats; ++r) {
    const double us = microseconds_each(iterations, [&] {
      check_cuda(
          api.cuLaunchKernel(kernel->function(), 1, 1, 1, 256, 1, 1, 0, nullptr, params, nullptr),
          "cuLaunchKernel");
    });
    context.synchronize();
    best = std::min(best, us);
  }
  return best;
}

}  // namespace

void bind_floor(py::module_& m) {
  m.def("launch_floor", launch_floor, py::arg("iterations") = 5000, py::arg("repeats") = 5,
        "Microseconds of one cuLaunchKernel in a C++ loop, best of `repeats`.");
}

}  // namespace gpk::bind
