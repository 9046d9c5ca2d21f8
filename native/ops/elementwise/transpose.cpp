#include "ops/elementwise/transpose.h"

#include <algorithm>
#include <optional>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "kernels/args/elementwise.h"
#include "ops/elementwise/layout.h"
#include "ops/elementwise/map.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "ops/word_type.h"
#include "plan/key_builder.h"

namespace gpk::ops::elementwise {
namespace {

using kernels::TransposeArgs;

constexpr std::int64_t kMinSize = 8;

constexpr auto kTransposeKernel = static_cast<std::uint8_t>(ElementwiseKernel::kTranspose);

std::uint64_t variant_key(std::size_t width, bool blocks) {
  return plan::KeyBuilder().field("width", width, 5).field("blocks", blocks, 1).key();
}

jit::KernelSpec spec_of(std::size_t width, bool blocks) {
  jit::KernelSpec spec;
  spec.kernel = kTransposeKernel;
  spec.variant = variant_key(width, blocks);
  spec.file = "elementwise/transpose.cuh";
  spec.op = "copy";
  spec.expression = cat("gpk::transpose_", blocks ? "blocks<" : "tiles<", word_type(width), ">");
  return spec;
}

// The axis along which the source is contiguous; nullopt when it is the inner one or there is none.
std::optional<int> source_axis(const Layout& layout) {
  if (layout.rank < 2 || layout.stride[0][1] != 1 || layout.stride[0][0] == 1) return std::nullopt;
  for (int axis = 1; axis < layout.rank; ++axis)
    if (layout.stride[axis][0] == 1 && layout.size[axis] >= kMinSize && layout.size[0] >= kMinSize)
      return axis;
  return std::nullopt;
}

TransposeArgs make_args(const Layout& layout, int axis, const Array& dst, const Array& src) {
  TransposeArgs args{};
  args.in = src.data();
  args.out = dst.data();
  args.rows = layout.size[axis];
  args.columns = layout.size[0];
  args.in_step = layout.stride[0][0];
  args.out_step = layout.stride[axis][1];
  for (int i = 1; i < layout.rank; ++i) {
    if (i == axis) continue;
    args.batch_size[args.batch_rank] = layout.size[i];
    args.batch_in[args.batch_rank] = layout.stride[i][0];
    args.batch_out[args.batch_rank++] = layout.stride[i][1];
  }
  return args;
}

// Whether every access can be 16 aligned bytes.
bool in_blocks(const TransposeArgs& args, std::size_t width) {
  std::int64_t all = args.rows | args.columns | args.in_step | args.out_step;
  for (int i = 0; i < args.batch_rank; ++i) all |= args.batch_in[i] | args.batch_out[i];
  const auto addresses =
      reinterpret_cast<std::uintptr_t>(args.in) | reinterpret_cast<std::uintptr_t>(args.out);
  return all * static_cast<std::int64_t>(width) % 16 == 0 && addresses % 16 == 0;
}

}  // namespace

bool transpose_copy(const Array& dst, const Array& src) {
  const Array* arrays[] = {&src, &dst};
  const Layout layout = make_layout(dst.shape(), arrays);
  const auto axis = source_axis(layout);
  if (!axis) return false;
  TransposeArgs args = make_args(layout, *axis, dst, src);
  const std::size_t width = itemsize(dst.dtype());
  const bool blocks = in_blocks(args, width);
  const std::int64_t tile_rows =
      blocks ? TransposeArgs::kBlockBytes / static_cast<std::int64_t>(width) : TransposeArgs::kTile;
  const std::int64_t tile_columns = blocks ? TransposeArgs::kBlockColumns : TransposeArgs::kTile;
  std::int64_t tiles = ceil_div(args.rows, tile_rows) * ceil_div(args.columns, tile_columns);
  for (int i = 0; i < args.batch_rank; ++i) tiles *= args.batch_size[i];
  if (tiles > INT32_MAX) return false;
  const LaunchConfig config = grid_1d(tiles, 1, 256);
  const Kernel& k = kernel(Context::get(dst.device().index),
                           {Family::elementwise, kTransposeKernel, variant_key(width, blocks)},
                           [&] { return spec_of(width, blocks); });
  void* params[] = {&args};
  submit(k, config, {&dst, &src}, params);
  return true;
}

void enumerate_transpose(std::vector<jit::KernelSpec>& specs) {
  for (const std::size_t width : {1, 2, 4, 8, 16})
    for (const bool blocks : {false, true}) specs.push_back(spec_of(width, blocks));
}

}  // namespace gpk::ops::elementwise
