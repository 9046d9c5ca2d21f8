// Kernels that the fake knows by exact name, for tests in Python, which cannot give bodies.
#include <cstring>

#include "fake_driver/fake_state.h"

namespace fake {
namespace {

template <class T>
T read(const void* param) {
  T value;
  std::memcpy(&value, param, sizeof value);
  return value;
}

// The element count is an int or a 64-bit number, as the kernel declares it.
std::int64_t read_count(const Launch& launch, void** params, std::size_t index) {
  return launch.args[index].size() == 4 ? read<std::int32_t>(params[index])
                                        : read<std::int64_t>(params[index]);
}

template <class Function>
KernelBody binary(Function function) {  // (const float* a, const float* b, float* out, n)
  return [function](const Launch& launch, void** params) {
    const auto* a = read<const float*>(params[0]);
    const auto* b = read<const float*>(params[1]);
    auto* out = read<float*>(params[2]);
    for (std::int64_t i = 0; i < read_count(launch, params, 3); ++i) out[i] = function(a[i], b[i]);
  };
}

template <class Function>
KernelBody in_place(Function function) {  // (float* x, float value, n)
  return [function](const Launch& launch, void** params) {
    auto* x = read<float*>(params[0]);
    const auto value = read<float>(params[1]);
    for (std::int64_t i = 0; i < read_count(launch, params, 2); ++i) x[i] = function(x[i], value);
  };
}

}  // namespace

const BuiltinKernel* find_builtin(const std::string& name) {
  static const auto* kernels = new std::vector<BuiltinKernel>{
      {"add", {8, 8, 8, 4}, binary([](float a, float b) { return a + b; })},
      {"mul", {8, 8, 8, 4}, binary([](float a, float b) { return a * b; })},
      {"scale", {8, 4, 4}, in_place([](float x, float value) { return x * value; })},
      {"fill", {8, 4, 4}, in_place([](float, float value) { return value; })},
  };
  for (const BuiltinKernel& kernel : *kernels)
    if (name == kernel.name) return &kernel;
  return nullptr;
}

}  // namespace fake
