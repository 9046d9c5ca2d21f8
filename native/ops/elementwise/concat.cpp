#include "ops/elementwise/concat.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "kernels/args/elementwise.h"
#include "ops/elementwise/map.h"
#include "ops/elementwise/map_params.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "ops/word_type.h"

namespace gpk::ops::elementwise {
namespace {

using kernels::ConcatArgs;

constexpr auto kConcatKernel = static_cast<std::uint8_t>(ElementwiseKernel::kConcat);
constexpr std::int64_t kBlockWords = std::int64_t{ConcatArgs::kThreads} * ConcatArgs::kUnroll;

jit::KernelSpec concat_spec(std::size_t width) {
  jit::KernelSpec spec;
  spec.kernel = kConcatKernel;
  spec.variant = width;
  spec.file = "elementwise/concat.cuh";
  spec.op = "concat";
  spec.expression = cat("gpk::concat_kernel<", word_type(width), ">");
  return spec;
}

bool fits(const Array& out, std::span<const Array> arrays) {
  if (arrays.size() < 2 || !out.device().is_cuda() || info(out.dtype()).bits < 8 ||
      !out.is_contiguous())
    return false;
  return std::ranges::all_of(arrays, [&](const Array& a) {
    return a.dtype() == out.dtype() && a.is_contiguous() && !may_overlap(out, a);
  });
}

// Bytes of axis `axis` and those after it.
std::int64_t row_bytes_of(const Array& array, int axis) {
  auto bytes = static_cast<std::int64_t>(itemsize(array.dtype()));
  for (int i = axis; i < array.ndim(); ++i) bytes *= array.shape()[i];
  return bytes;
}

// Up to ConcatArgs::kMaxPieces arrays; those before them take `start` bytes of a row.
void launch_concat(const Array& out, std::span<const Array> arrays,
                   std::span<const std::int64_t> row_bytes, std::int64_t start,
                   std::int64_t out_row_bytes, std::int64_t rows, std::size_t width) {
  const auto word = static_cast<std::int64_t>(width);
  ConcatArgs args;
  args.out = out.data();
  args.row_words = out_row_bytes / word;
  args.num_pieces = 0;
  std::array<const Array*, ConcatArgs::kMaxPieces + 1> touched{};
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (row_bytes[i] == 0) continue;
    const std::int64_t num_words = row_bytes[i] / word * rows;
    touched[static_cast<std::size_t>(args.num_pieces)] = &arrays[i];
    args.piece[args.num_pieces++] = {
        arrays[i].data(), start / word, make_divider(row_bytes[i] / word),
        static_cast<unsigned>(num_words), static_cast<unsigned>(blocks)};
    start += row_bytes[i];
    blocks += ceil_div(num_words, kBlockWords);
  }
  if (blocks == 0) return;
  const auto num_touched = static_cast<std::size_t>(args.num_pieces) + 1;
  touched[num_touched - 1] = &out;
  const Kernel& code =
      kernel(Context::get(out.device().index), {Family::elementwise, kConcatKernel, width},
             [&] { return concat_spec(width); });
  void* params[] = {&args};
  submit(code, grid_1d(blocks, 1, ConcatArgs::kThreads), std::span(touched).first(num_touched),
         params);
}

}  // namespace

ConcatPlan plan_concat(std::span<const std::int64_t> row_bytes, std::int64_t rows,
                       std::size_t alignment) {
  std::uint64_t bits = std::uint64_t{alignment} | 16u;
  for (const std::int64_t bytes : row_bytes) bits |= static_cast<std::uint64_t>(bytes);
  ConcatPlan plan;
  plan.word_bytes = std::size_t{1} << std::countr_zero(bits);
  const auto word = static_cast<std::int64_t>(plan.word_bytes);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const std::int64_t bytes : row_bytes) {
    if (bytes / word > kMost / std::max<std::int64_t>(rows, 1)) return {plan.word_bytes, 0};
    plan.blocks += ceil_div(bytes / word * rows, kBlockWords);
  }
  return plan;
}

bool concat_copy(const Array& out, std::span<const Array> arrays, int axis) {
  if (!fits(out, arrays)) return false;
  if (out.size() == 0) return true;
  std::vector<std::int64_t> row_bytes;
  row_bytes.reserve(arrays.size());
  auto addresses = reinterpret_cast<std::uintptr_t>(out.data());
  for (const Array& array : arrays) {
    row_bytes.push_back(row_bytes_of(array, axis));
    if (row_bytes.back() > 0) addresses |= reinterpret_cast<std::uintptr_t>(array.data());
  }
  const std::int64_t out_row_bytes = row_bytes_of(out, axis);
  std::int64_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= out.shape()[i];
  const ConcatPlan plan = plan_concat(row_bytes, rows, addresses);
  if (plan.blocks == 0 || plan.blocks > std::numeric_limits<std::int32_t>::max()) return false;
  std::int64_t start = 0;
  for (std::size_t first = 0; first < arrays.size(); first += ConcatArgs::kMaxPieces) {
    const std::size_t count = std::min<std::size_t>(arrays.size() - first, ConcatArgs::kMaxPieces);
    const auto bytes = std::span(row_bytes).subspan(first, count);
    launch_concat(out, arrays.subspan(first, count), bytes, start, out_row_bytes, rows,
                  plan.word_bytes);
    for (const std::int64_t each : bytes) start += each;
  }
  return true;
}

void enumerate_concat(std::vector<jit::KernelSpec>& specs) {
  for (const std::size_t width : {1, 2, 4, 8, 16}) specs.push_back(concat_spec(width));
}

}  // namespace gpk::ops::elementwise
