#include "ops/indexing/mask.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/graph.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "ops/word_type.h"
#include "plan/key_builder.h"

namespace gpk::ops::indexing {
namespace {

constexpr const char* kFile = "indexing/mask.cuh";
constexpr unsigned kThreads = kernels::MaskLayout::kThreads;
constexpr std::int64_t kTile = kernels::MaskLayout::kTile;
constexpr std::int64_t kMaxBlocks = 2048;  // one block must be able to scan their counts
constexpr int kFillBlock = 256;
constexpr int kFillUnroll = 4;

using kernels::Emit;
using kernels::MaskLayout;

jit::KernelSpec plain_spec(IndexKernel kernel, const char* op, const std::string& expression,
                           std::uint64_t variant = 0) {
  jit::KernelSpec spec = index_spec(kernel, variant);
  spec.file = kFile;
  spec.op = op;
  spec.expression = expression;
  return spec;
}

std::uint64_t emit_key(Emit emit, std::size_t word) {
  return plan::KeyBuilder().field("word", word, 5).field("emit", emit, 2).key();
}

jit::KernelSpec emit_spec(Emit emit, std::size_t word) {
  static constexpr const char* kNames[] = {"kOffsets", "kCoords", "kWords"};
  const char* type = emit == Emit::kWords ? word_type(word) : "long long";
  return plain_spec(
      IndexKernel::kEmit, emit == Emit::kCoords ? "nonzero" : "getitem",
      cat("gpk::emit_kernel<", type, ", gpk::kernels::Emit::", kNames[static_cast<int>(emit)], ">"),
      emit_key(emit, word));
}

jit::KernelSpec fill_spec(std::size_t word) {
  jit::KernelSpec spec = index_spec(IndexKernel::kFill, word);
  spec.file = "indexing/fill.cuh";
  spec.op = "setitem";
  spec.expression = cat("gpk::masked_fill_kernel<", word_type(word), ", ",
                        kernels::FillLayout::kDims, ", ", kFillBlock, ", ", kFillUnroll, ">");
  spec.prefetched = word == 4;
  return spec;
}

jit::KernelSpec count_spec() {
  return plain_spec(IndexKernel::kCount, "nonzero", "gpk::count_kernel");
}
jit::KernelSpec scan_spec() {
  return plain_spec(IndexKernel::kScan, "nonzero", "gpk::scan_kernel");
}
jit::KernelSpec unravel_spec() {
  return plain_spec(IndexKernel::kUnravel, "unravel_index", "gpk::unravel_kernel");
}

// C order over `shape`, with axes merged where their strides allow it.
MaskLayout mask_layout(const Dims& shape, std::span<const std::int64_t> strides, bool join) {
  MaskLayout layout;
  int rank = 0;
  for (int i = 0; i < shape.size(); ++i) {
    if (join && shape[i] == 1) continue;
    const std::int64_t stride = strides[static_cast<std::size_t>(i)];
    if (join && rank > 0 && layout.stride[rank - 1] == stride * shape[i]) {
      layout.size[rank - 1] *= shape[i];
      layout.stride[rank - 1] = stride;
      continue;
    }
    layout.size[rank] = shape[i];
    layout.stride[rank++] = stride;
  }
  if (rank == 0) layout.size[rank++] = 1;
  layout.rank = rank;
  return layout;
}

void count_on_gpu(CountedMask& counted, const char* op) {
  const Array& mask = counted.mask;
  std::int64_t n = mask.size();
  counted.chunk = ceil_div(ceil_div(n, kTile), kMaxBlocks) * kTile;
  int blocks = static_cast<int>(ceil_div(n, counted.chunk));
  counted.sums = Array::empty({blocks + 1}, DType::kInt64, mask.device(), op);
  Context& context = Context::get(mask.device().index);
  cu::DevicePtr bytes = mask.device_ptr();
  cu::DevicePtr sums = counted.sums->device_ptr();
  {
    const Kernel& k = kernel(context, key(IndexKernel::kCount), count_spec);
    void* params[] = {&bytes, &n, &counted.chunk, &sums};
    submit(k, grid_1d(blocks, 1, kThreads), {&mask, &*counted.sums}, params);
  }
  {
    const Kernel& k = kernel(context, key(IndexKernel::kScan), scan_spec);
    void* params[] = {&sums, &blocks};
    submit(k, grid_1d(1, 1, 1024), {&*counted.sums}, params);
  }
  device::to_host(Array({}, {}, DType::kInt64, counted.sums->buffer(), blocks), &counted.count);
}

void emit_on_gpu(Emit emit, const CountedMask& mask, MaskLayout layout, const Array* source,
                 const Array& out, std::int64_t pitch) {
  if (mask.count == 0) return;
  const std::size_t word = emit == Emit::kWords ? itemsize(out.dtype()) : 8;
  Context& context = Context::get(out.device().index);
  const Kernel& k = kernel(context, key(IndexKernel::kEmit, emit_key(emit, word)),
                           [&] { return emit_spec(emit, word); });
  cu::DevicePtr bytes = mask.mask.device_ptr();
  cu::DevicePtr sums = mask.sums->device_ptr();
  cu::DevicePtr from = source == nullptr ? 0 : source->device_ptr();
  cu::DevicePtr to = out.device_ptr();
  std::int64_t n = mask.mask.size();
  std::int64_t chunk = mask.chunk;
  void* params[] = {&bytes, &n, &chunk, &sums, &layout, &from, &to, &pitch};
  submit(k, grid_1d(n, chunk, kThreads), {&mask.mask, &*mask.sums, &out, source}, params);
}

}  // namespace

CountedMask count_true(const Array& given, const char* op) {
  forbid_in_capture(op, "the shape of the result depends on the mask's values");
  CountedMask counted{contiguous(given, op), 0, 0, std::nullopt};
  if (given.size() == 0) return counted;
  if (given.device().is_cuda()) {
    count_on_gpu(counted, op);
  } else {
    const BufferUse use(counted.mask.buffer(), current_stream(counted.mask.device()));
    const auto* bytes = static_cast<const unsigned char*>(counted.mask.data());
    counted.count = given.size() - std::count(bytes, bytes + given.size(), 0);
  }
  return counted;
}

Array true_coordinates(const CountedMask& mask, const char* op) {
  const Dims& shape = mask.mask.shape();
  Array out = Array::empty({shape.size(), mask.count}, DType::kInt64, mask.mask.device(), op);
  if (out.size() == 0) return out;
  if (!out.device().is_cuda()) {
    run_on_cpu({"nonzero", {mask.mask}, {out}});
    return out;
  }
  emit_on_gpu(Emit::kCoords, mask, mask_layout(shape, shape.span(), false), nullptr, out,
              mask.count);
  return out;
}

Array true_offsets(const CountedMask& mask, std::span<const std::int64_t> strides,
                   std::int64_t ratio, const char* op) {
  Array out = Array::empty({mask.count}, DType::kInt64, mask.mask.device(), op);
  MaskLayout layout = mask_layout(mask.mask.shape(), strides, true);
  for (int i = 0; i < layout.rank; ++i) layout.stride[i] /= ratio;
  emit_on_gpu(Emit::kOffsets, mask, layout, nullptr, out, 0);
  return out;
}

void compact_on_gpu(const Array& out, const Array& array, const CountedMask& mask) {
  emit_on_gpu(Emit::kWords, mask, mask_layout(array.shape(), array.strides().span(), true), &array,
              out, 0);
}

void masked_fill_on_gpu(const Array& dst, const Array* mask, const MoveSource& value,
                        const char* op) {
  if (dst.size() == 0) return;
  const auto* values = std::get_if<Array>(&value);
  WideLayout layout = make_axes(dst, 0, {}, 0).layout;
  if (values != nullptr) set_plain_side(layout, values->strides());
  std::optional<Array> wide_mask;
  if (mask != nullptr) {
    wide_mask = broadcast_to(*mask, dst.shape(), op);
    layout.num_indexes = 1;
    std::copy_n(wide_mask->strides().begin(), dst.ndim(), layout.index[0].stride);
  }
  collapse(layout);
  auto fill = with_axes<kernels::FillLayout>(layout);
  std::copy_n(layout.index[0].stride, layout.rank, fill.index[0].stride);
  if (mask != nullptr) fill.index[0].data = address(*mask);
  const std::size_t word = itemsize(dst.dtype());
  Context& context = Context::get(dst.device().index);
  const Kernel& k = kernel(context, key(IndexKernel::kFill, word), [&] { return fill_spec(word); });
  ScalarBytes bytes;
  if (values == nullptr) bytes = std::get<ScalarBytes>(value);
  cu::DevicePtr to = dst.device_ptr();
  cu::DevicePtr from = values == nullptr ? 0 : values->device_ptr();
  void* params[] = {&fill, &to, &from, bytes.bytes};
  submit(k, grid_1d(fill.total, std::int64_t{kFillBlock} * kFillUnroll, kFillBlock),
         {&dst, mask, values}, params);
}

void unravel_on_gpu(const Array& coordinates, const Array& indices, const Dims& shape,
                    const char* op) {
  std::int64_t n = indices.size();
  if (n == 0 || shape.empty()) return;
  Context& context = Context::get(indices.device().index);
  const Kernel& k = kernel(context, key(IndexKernel::kUnravel), unravel_spec);
  MaskLayout layout = mask_layout(shape, shape.span(), false);
  kernels::IndexReport report = context.report().handle(op);
  std::int64_t total = num_elements(shape, op);
  cu::DevicePtr from = indices.device_ptr();
  cu::DevicePtr to = coordinates.device_ptr();
  void* params[] = {&from, &n, &total, &layout, &to, &report};
  submit(k, grid_1d(n, kThreads, kThreads), {&indices, &coordinates}, params);
}

void enumerate_mask(std::vector<jit::KernelSpec>& specs) {
  specs.push_back(count_spec());
  specs.push_back(scan_spec());
  specs.push_back(unravel_spec());
  specs.push_back(emit_spec(Emit::kOffsets, 8));
  specs.push_back(emit_spec(Emit::kCoords, 8));
  for (const std::size_t word : {1, 2, 4, 8, 16}) {
    specs.push_back(emit_spec(Emit::kWords, word));
    specs.push_back(fill_spec(word));
  }
}

}  // namespace gpk::ops::indexing
