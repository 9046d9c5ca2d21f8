// PyGPUkit from C++: picks a device, adds two arrays, compiles and launches a custom kernel.
// Without a GPU it prints the reason and exits with 0.
#include <gpk.h>
#include <jit/bundle.h>
#include <jit/program.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string_view>
#include <vector>

// The PTX of the built-in kernels, from pygpukit::gpk_bundle: for machines without NVRTC.
extern "C" {
extern const char gpk_bundle_begin[];
extern const char gpk_bundle_end[];
}

namespace {

constexpr std::int64_t kElems = 1 << 20;

constexpr const char* kScale = R"(
extern "C" __global__ void scale(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
)";

bool all_equal(const gpk::Array& array, float expected) {
  std::vector<float> host(static_cast<std::size_t>(array.size()));
  gpk::device::to_host(array, host.data());
  for (const float value : host)
    if (value != expected) return false;
  return true;
}

bool check(const char* what, bool ok) {
  std::cout << (ok ? "ok     " : "WRONG  ") << what << '\n';
  return ok;
}

// x *= factor for every element, on the current stream.
void scale(const gpk::Array& x, float factor) {
  gpk::jit::CompileRequest request;
  request.name = "scale.cu";
  request.source = kScale;
  request.name_expressions = {"scale"};
  const auto program = gpk::jit::Program::build(request, x.device());
  const auto kernel = program->kernel("scale");

  gpk::LaunchConfig config;
  config.block[0] = 256;
  config.grid[0] = static_cast<unsigned>((x.size() + 255) / 256);
  gpk::launch_args(*kernel, config, gpk::current_stream(x.device()), x.device_ptr(), factor,
                   static_cast<int>(x.size()));
}

int run() {
  const gpk::DeviceChoiceResult& choice = gpk::default_device_choice();
  std::cout << "device " << gpk::to_string(choice.device) << ": " << choice.reason << '\n';
  if (!choice.device.is_cuda()) {
    std::cout << "nothing to do without a GPU: the ops of CPU simulation are in Python\n";
    return 0;
  }

  const std::vector<float> host(static_cast<std::size_t>(kElems), 1.5F);
  const gpk::Array a =
      gpk::device::from_host(host.data(), gpk::Dims{kElems}, gpk::DType::kFloat32, choice.device);
  const gpk::Array sum = gpk::ops::add(a, a);
  bool ok = check("add: 1.5 + 1.5 is 3 everywhere", all_equal(sum, 3.0F));

  if (gpk::jit::find_nvrtc().nvrtc == nullptr) {
    std::cout << "custom kernel skipped: NVRTC was not found\n";
  } else {
    scale(sum, 0.5F);
    ok = check("custom kernel: 3 * 0.5 is 1.5 everywhere", all_equal(sum, 1.5F)) && ok;
  }
  return ok ? 0 : 1;
}

}  // namespace

int main() {
  try {
    gpk::jit::set_bundle(std::string_view(
        gpk_bundle_begin, static_cast<std::size_t>(gpk_bundle_end - gpk_bundle_begin)));
    return run();
  } catch (const std::exception& error) {
    std::cerr << "gpk_example: " << error.what() << '\n';
    return 1;
  }
}
