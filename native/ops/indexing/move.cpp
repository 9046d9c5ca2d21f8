#include "ops/indexing/move.h"

#include <bit>
#include <cstring>

#include "base/text.h"
#include "core/context.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "ops/word_type.h"
#include "plan/key_builder.h"

namespace gpk::ops::indexing {
namespace {

constexpr int kBlock = 256;
constexpr const char* kFile = "indexing/move.cuh";

// How a kernel reads indices: specialised for int32 or int64, or generic.
enum class Indexing : std::uint8_t { kInt32, kInt64, kAny };

int unroll(Indexing indexing) { return indexing == Indexing::kAny ? 2 : 4; }

std::uint64_t move_key(bool scatter, std::size_t word, Indexing indexing) {
  return plan::KeyBuilder()
      .field("word", word, 5)
      .field("scatter", scatter, 1)
      .field("indexing", indexing, 2)
      .key();
}

// Template arguments of the layout type of a kernel.
template <class Layout>
std::string shape_of() {
  return cat(Layout::kDims, ", ", Layout::kIndexes);
}

jit::KernelSpec move_spec(bool scatter, std::size_t word, Indexing indexing) {
  static constexpr const char* kTypes[] = {"int", "long long", "gpk::AnyIndex"};
  jit::KernelSpec spec = index_spec(IndexKernel::kMove, move_key(scatter, word, indexing));
  spec.file = kFile;
  spec.op = scatter ? "setitem" : "getitem";
  spec.expression = cat(
      "gpk::move_kernel<", word_type(word), ", ", scatter, ", ", kTypes[static_cast<int>(indexing)],
      ", ", indexing == Indexing::kAny ? shape_of<WideLayout>() : shape_of<NarrowLayout>(), ", ",
      kBlock, ", ", unroll(indexing), ">");
  spec.prefetched = word == 4;
  return spec;
}

jit::KernelSpec address_spec() {
  jit::KernelSpec spec = index_spec(IndexKernel::kAddress);
  spec.file = kFile;
  spec.op = "setitem";
  spec.expression = cat("gpk::address_kernel<", shape_of<WideLayout>(), ", ", kBlock, ">");
  return spec;
}

jit::KernelSpec duplicates_spec(IndexKernel which, bool wide) {
  jit::KernelSpec spec = index_spec(which, wide ? 1 : 0);
  spec.file = "indexing/duplicates.cuh";
  spec.op = "setitem";
  spec.expression = cat(which == IndexKernel::kMark ? "gpk::mark_kernel<" : "gpk::drop_kernel<",
                        wide ? "long long>" : "int>");
  return spec;
}

kernels::IndexReport report_for(Context& context, IndexMode mode, const char* op) {
  if (mode != IndexMode::kRaise && mode != IndexMode::kStrict) return {};
  return context.report().handle(op);
}

std::vector<const Array*> with_indexes(std::initializer_list<const Array*> first,
                                       const std::vector<AxisIndex>& indexes) {
  std::vector<const Array*> arrays(first);
  for (const AxisIndex& index : indexes) arrays.push_back(&index.array);
  return arrays;
}

// Offsets of the locations selected by any number of indexes, shape `middle`.
Array index_offsets(const Array& view, const std::vector<AxisIndex>& indexes, const Dims& middle,
                    IndexMode mode, std::int64_t ratio, const char* op) {
  Array offsets = Array::empty(middle, DType::kInt64, view.device(), op);
  const Array nothing({}, {}, view.dtype(), view.buffer(), 0);  // no free axes
  for (std::size_t first = 0; first < indexes.size(); first += 4) {
    const std::size_t last = std::min(first + 4, indexes.size());
    AxesLayout axes = make_axes(nothing, 0, middle, 0);
    std::vector<const Array*> arrays;
    for (std::size_t k = first; k < last; ++k) {
      const AxisIndex& index = indexes[k];
      add_index(axes, middle, index.array, view.shape()[index.axis], view.strides()[index.axis],
                index.source_axis);
      arrays.push_back(&index.array);
    }
    axes.layout.mode = mode;
    address_on_gpu(offsets, axes.layout, ratio, arrays, first > 0, op);
  }
  return offsets;
}

WideLayout offset_layout(const Array& view, const std::vector<AxisIndex>& indexes,
                         const Dims& middle, int at, const Array& offsets, std::int64_t ratio) {
  AxesLayout axes = make_axes(view, picked_axes(indexes), middle, at);
  add_index(axes, middle, offsets, 0, ratio, 0);
  axes.layout.mode = IndexMode::kOffset;
  return axes.layout;
}

Dims plain_strides(const MoveSource& value, int rank) {
  if (const auto* array = std::get_if<Array>(&value)) return array->strides();
  return Dims::filled(rank, 0);
}

// True when the value varies along an axis of the index arrays, so that the order of duplicate
// indices matters.
bool order_matters(const MoveSource& value, const Dims& middle, const Array& view,
                   std::uint32_t picked, int at) {
  const auto* array = std::get_if<Array>(&value);
  if (array == nullptr) return false;
  const int first = make_axes(view, picked, middle, at).middle_axis;
  for (int i = first; i < first + middle.size(); ++i)
    if (array->shape()[i] > 1 && array->strides()[i] != 0) return true;
  return false;
}

std::uintptr_t address(const MoveSource& value) {
  const auto* array = std::get_if<Array>(&value);
  return array == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(array->data());
}

}  // namespace

jit::KernelSpec index_spec(IndexKernel kernel, std::uint64_t variant) {
  jit::KernelSpec spec;
  spec.kernel = static_cast<std::uint8_t>(kernel);
  spec.variant = variant;
  return spec;
}

ScalarBytes repeated(const ScalarBytes& value, std::size_t item) {
  ScalarBytes result;
  for (std::size_t at = 0; at < sizeof result.bytes; at += item)
    std::memcpy(result.bytes + at, value.bytes, item);
  return result;
}

void launch_move(bool scatter, const WideLayout& layout, std::size_t word, const Array& a,
                 const MoveSource& b, std::span<const Array* const> others, const char* op) {
  if (layout.total == 0) return;
  const bool is_narrow = fits_narrow(layout);
  const Indexing indexing = !is_narrow                                           ? Indexing::kAny
                            : layout.index[0].type == kernels::IndexType::kInt32 ? Indexing::kInt32
                                                                                 : Indexing::kInt64;
  Context& context = Context::get(a.device().index);
  const Kernel& k = kernel(context, key(IndexKernel::kMove, move_key(scatter, word, indexing)),
                           [&] { return move_spec(scatter, word, indexing); });
  const auto* plain = std::get_if<Array>(&b);
  ScalarBytes value;
  if (plain == nullptr) value = repeated(std::get<ScalarBytes>(b), itemsize(a.dtype()));
  kernels::IndexReport report = report_for(context, layout.mode, op);
  cu::DevicePtr a_ptr = a.device_ptr();
  cu::DevicePtr b_ptr = plain == nullptr ? 0 : plain->device_ptr();
  NarrowLayout small;
  WideLayout large;
  if (is_narrow) {
    small = narrow(layout);
  } else {
    large = layout;
  }
  void* params[] = {is_narrow ? static_cast<void*>(&small) : &large, &a_ptr, &b_ptr, value.bytes,
                    &report};
  std::vector<const Array*> arrays(others.begin(), others.end());
  arrays.push_back(&a);
  if (plain != nullptr) arrays.push_back(plain);
  submit(k, grid_1d(layout.total, std::int64_t{kBlock} * unroll(indexing), kBlock),
         std::span<const Array* const>(arrays), params);
}

void move_on_gpu(bool scatter, WideLayout& layout, const Array& a, const MoveSource& b,
                 std::span<const Array* const> arrays, const char* op) {
  collapse(layout);
  const std::size_t word =
      widen(layout, itemsize(a.dtype()), reinterpret_cast<std::uintptr_t>(a.data()), address(b),
            std::holds_alternative<ScalarBytes>(b));
  launch_move(scatter, layout, word, a, b, arrays, op);
}

void address_on_gpu(const Array& offsets, WideLayout layout, std::int64_t ratio,
                    std::span<const Array* const> others, bool accumulate, const char* op) {
  if (layout.total == 0) return;
  std::fill_n(layout.b, layout.rank, 0);
  collapse(layout);
  for (int i = 0; i < layout.rank; ++i) layout.a[i] /= ratio;
  for (int i = 0; i < layout.num_indexes; ++i) layout.index[i].step /= ratio;
  Context& context = Context::get(offsets.device().index);
  const Kernel& k = kernel(context, key(IndexKernel::kAddress), address_spec);
  kernels::IndexReport report = report_for(context, layout.mode, op);
  cu::DevicePtr out = offsets.device_ptr();
  int add = accumulate ? 1 : 0;
  void* params[] = {&layout, &out, &add, &report};
  std::vector<const Array*> arrays(others.begin(), others.end());
  arrays.push_back(&offsets);
  submit(k, grid_1d(layout.total, kBlock, kBlock), std::span<const Array* const>(arrays), params);
}

void drop_duplicates(const Array& offsets, std::int64_t size, std::int64_t stride, const char* op) {
  std::int64_t n = offsets.size();
  if (n <= 1) return;
  // A direct table is cheaper than hashing while it is not much longer than the list.
  const bool direct = size > 0 && stride != 0 && size / 8 <= n;
  std::int64_t slots = direct ? size : 2 * n;
  std::int64_t unit = direct ? stride : 0;
  const bool wide = n > std::int64_t{INT32_MAX};
  const Array table =
      Array::empty({slots}, wide ? DType::kInt64 : DType::kInt32, offsets.device(), op);
  Context& context = Context::get(offsets.device().index);
  const Array* const arrays[] = {&table, &offsets};
  const Submission submission(op, arrays);
  context.make_current();
  GPK_CU_CHECK(cuMemsetD8Async, table.device_ptr(), 0xff, table.nbytes(),
               submission.stream()->handle());
  cu::DevicePtr list = offsets.device_ptr();
  cu::DevicePtr entries = table.device_ptr();
  void* params[] = {&list, &n, &entries, &slots, &unit};
  for (const IndexKernel which : {IndexKernel::kMark, IndexKernel::kDrop}) {
    const Kernel& k =
        kernel(context, key(which, wide ? 1 : 0), [&] { return duplicates_spec(which, wide); });
    submit(k, grid_1d(n, kBlock, kBlock), arrays, params);
  }
}

void gather_on_gpu(const Array& out, const Array& view, const std::vector<AxisIndex>& indexes,
                   const Dims& middle, int at, IndexMode mode, const char* op) {
  if (out.size() == 0) return;
  if (indexes.size() > 4) {
    const Array offsets = index_offsets(view, indexes, middle, mode, 1, op);
    WideLayout layout = offset_layout(view, indexes, middle, at, offsets, 1);
    set_plain_side(layout, out.strides());
    const Array* const arrays[] = {&offsets};
    move_on_gpu(false, layout, view, out, arrays, op);
    return;
  }
  WideLayout layout = make_layout(view, indexes, middle, at);
  layout.mode = mode;
  set_plain_side(layout, out.strides());
  move_on_gpu(false, layout, view, out, with_indexes({}, indexes), op);
}

void scatter_on_gpu(const Array& view, const std::vector<AxisIndex>& indexes, const Dims& middle,
                    int at, IndexMode mode, const MoveSource& value, const char* op) {
  const bool many = indexes.size() > 4;
  const bool ordered =
      !indexes.empty() && order_matters(value, middle, view, picked_axes(indexes), at);
  WideLayout layout = many ? WideLayout{} : make_layout(view, indexes, middle, at);
  if (!many) {
    layout.mode = mode;
    set_plain_side(layout, plain_strides(value, layout.rank));
  }
  if (!many && !ordered) {
    move_on_gpu(true, layout, view, value, with_indexes({}, indexes), op);
    return;
  }
  const std::size_t item = itemsize(view.dtype());
  std::int64_t ratio = 1;
  if (!many) {
    if (layout.total == 0) return;
    collapse(layout);
    ratio = static_cast<std::int64_t>(
        widen(layout, item, reinterpret_cast<std::uintptr_t>(view.data()), address(value),
              std::holds_alternative<ScalarBytes>(value)) /
        item);
  }
  const Array offsets = index_offsets(view, indexes, middle, mode, ratio, op);
  if (ordered) {
    const bool single = indexes.size() == 1;
    drop_duplicates(offsets, single ? view.shape()[indexes[0].axis] : 0,
                    single ? view.strides()[indexes[0].axis] / ratio : 0, op);
  }
  WideLayout by_offset = offset_layout(view, indexes, middle, at, offsets, ratio);
  set_plain_side(by_offset, plain_strides(value, by_offset.rank));
  const Array* const arrays[] = {&offsets};
  move_on_gpu(true, by_offset, view, value, arrays, op);
}

void enumerate_move(std::vector<jit::KernelSpec>& specs) {
  for (const std::size_t word : {1, 2, 4, 8, 16})
    for (const bool scatter : {false, true})
      for (const Indexing indexing : {Indexing::kInt32, Indexing::kInt64, Indexing::kAny})
        specs.push_back(move_spec(scatter, word, indexing));
  specs.push_back(address_spec());
  for (const bool wide : {false, true})
    for (const IndexKernel which : {IndexKernel::kMark, IndexKernel::kDrop})
      specs.push_back(duplicates_spec(which, wide));
}

}  // namespace gpk::ops::indexing
