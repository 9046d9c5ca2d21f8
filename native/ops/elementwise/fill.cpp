#include "ops/elementwise/fill.h"

#include <algorithm>
#include <cstring>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/check.h"
#include "core/context.h"
#include "core/graph.h"
#include "core/launch.h"
#include "core/memory.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/map.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "ops/word_type.h"

namespace gpk::ops {
namespace {

using namespace elementwise;

constexpr auto kFillKernel = static_cast<std::uint8_t>(ElementwiseKernel::kFill);

jit::KernelSpec fill_spec(std::size_t width) {
  jit::KernelSpec spec;
  spec.kernel = kFillKernel;
  spec.variant = width;
  spec.file = "elementwise/fill.cuh";
  spec.op = "fill";
  spec.expression = cat("gpk::fill_kernel<", word_type(width), ">");
  return spec;
}

// The bytes of one element; zero needs no conversion, so that storage-only types can be zeroed.
ScalarBytes pattern_of(const Scalar& value, DType dtype, const char* op) {
  const auto* number = std::get_if<std::int64_t>(&value);
  if (number != nullptr && *number == 0) return {};
  return to_bytes(value, dtype, op);
}

template <class Word>
Word word(const ScalarBytes& pattern) {
  Word value;
  std::memcpy(&value, pattern.bytes, sizeof value);
  return value;
}

bool all_zero(const ScalarBytes& pattern) {
  return std::all_of(pattern.bytes, pattern.bytes + 16, [](unsigned char b) { return b == 0; });
}

void launch_fill(const Array& array, ScalarBytes pattern, const std::shared_ptr<Stream>& stream) {
  Context& context = *stream->context();
  const std::size_t width = itemsize(array.dtype());
  const Kernel& k =
      kernel(context, {Family::elementwise, kFillKernel, width}, [&] { return fill_spec(width); });
  LaunchConfig config;
  config.block[0] = 256;
  config.grid[0] = static_cast<unsigned>(std::min<std::int64_t>(
      ceil_div(array.size(), 256), std::int64_t{context.traits().multiprocessor_count} * 8));
  cu::DevicePtr out = array.device_ptr();
  std::int64_t n = array.size();
  void* params[] = {&out, pattern.bytes, &n};
  launch(k, config, stream, params);
}

void fill_on_gpu(const Array& array, const ScalarBytes& pattern) {
  const Array* const arrays[] = {&array};
  const Submission submission("a fill", arrays);
  const auto& stream = submission.stream();
  stream->context()->make_current();
  const auto n = static_cast<std::size_t>(array.size());
  if (all_zero(pattern)) {
    fill_on_device(array.device_ptr(), 0, 1, array.nbytes(), *stream);
    return;
  }
  if (const std::size_t width = itemsize(array.dtype()); width <= sizeof(std::uint32_t))
    fill_on_device(array.device_ptr(), word<std::uint32_t>(pattern), width, n, *stream);
  else
    launch_fill(array, pattern, stream);
}

// A number broadcast into a view.
void fill_strided(const Array& array, const Scalar& value, const char* op) {
  if (array.device().is_cuda()) {
    const MapOperand number{nullptr, compute_number(value, array.dtype(), op)};
    run_map(kFillOp, "fill", "Copy", array.dtype(), {&number, 1}, array);
  } else {
    run_on_cpu({"copy", {value}, {array}});
  }
}

void fill_on_cpu(const Array& array, const ScalarBytes& pattern) {
  const BufferUse use(array.buffer(), current_stream(array.device()));
  auto* data = static_cast<unsigned char*>(array.data());
  if (all_zero(pattern)) {
    std::memset(data, 0, array.nbytes());
    return;
  }
  const std::size_t width = itemsize(array.dtype());
  for (std::int64_t i = 0; i < array.size(); ++i)
    std::memcpy(data + static_cast<std::size_t>(i) * width, pattern.bytes, width);
}

}  // namespace

void fill(const Array& array, const Scalar& value, const char* op) {
  const ScalarBytes pattern = pattern_of(value, array.dtype(), op);
  if (array.size() == 0) return;
  if (!is_dense_permuted(array)) {
    fill_strided(array, value, op);
  } else if (array.device().is_cuda()) {
    fill_on_gpu(array, pattern);
  } else if (Graph* graph = capturing_graph(); graph != nullptr && !graph->device().is_cuda()) {
    graph->record_host_call([array, pattern] { fill_on_cpu(array, pattern); });
  } else {
    fill_on_cpu(array, pattern);
  }
}

Array full(const Dims& shape, const Scalar& value, DType dtype, Device device, const char* op) {
  pattern_of(value, dtype, op);  // a bad value must not cost an allocation
  Array array = Array::empty(shape, dtype, device, op);
  fill(array, value, op);
  return array;
}

void elementwise::enumerate_fill(std::vector<jit::KernelSpec>& specs) {
  specs.push_back(fill_spec(8));
  specs.push_back(fill_spec(16));
}

}  // namespace gpk::ops
