// Gather and scatter on a GPU: from a selection to launches. The array-level ops are in getitem.h
// and take.h; all arguments here have been checked.
#pragma once

#include <variant>
#include <vector>

#include "core/array.h"
#include "core/scalar.h"
#include "ops/indexing/layout.h"
#include "ops/kernel_table.h"

namespace gpk::ops::indexing {

// Kernels of the family, for KernelKey.
enum class IndexKernel : std::uint8_t {
  kMove,
  kAddress,
  kMark,
  kDrop,
  kCount,
  kScan,
  kEmit,
  kFill,
  kUnravel,
};

inline KernelKey key(IndexKernel kernel, std::uint64_t variant = 0) {
  return {Family::indexing, static_cast<std::uint8_t>(kernel), variant};
}

// The spec for a kernel and the fields of its key.
jit::KernelSpec index_spec(IndexKernel kernel, std::uint64_t variant = 0);

// One element, or an array of the result's shape and the target's dtype.
using MoveSource = std::variant<ScalarBytes, Array>;

// The bytes of one element repeated over 16.
ScalarBytes repeated(const ScalarBytes& value, std::size_t item);

// out[...] = view[...]; `out` of the result's shape, any strides.
void gather_on_gpu(const Array& out, const Array& view, const std::vector<AxisIndex>& indexes,
                   const Dims& middle, int at, IndexMode mode, const char* op);

// view[...] = value. Of several values for one location the last in C order of `middle` wins.
void scatter_on_gpu(const Array& view, const std::vector<AxisIndex>& indexes, const Dims& middle,
                    int at, IndexMode mode, const MoveSource& value, const char* op);

// Same over a finished layout: side a is `a`; collapsed and vectorised here. The caller has
// resolved duplicate locations. `arrays`: what else the kernel reads.
void move_on_gpu(bool scatter, WideLayout& layout, const Array& a, const MoveSource& b,
                 std::span<const Array* const> arrays, const char* op);
// The last step of it, for layouts that are collapsed and vectorised.
void launch_move(bool scatter, const WideLayout& layout, std::size_t word, const Array& a,
                 const MoveSource& b, std::span<const Array* const> arrays, const char* op);

// int64 offsets in side a, one per coordinate of `layout` (not vectorised; side b is unused).
// `ratio` divides all of them. Out-of-bounds indices give kSkipOffset.
void address_on_gpu(const Array& offsets, WideLayout layout, std::int64_t ratio,
                    std::span<const Array* const> arrays, bool accumulate, const char* op);

// Keeps the last of equal offsets and sets the others to kSkipOffset. `size` > 0: all offsets are
// `stride` times a number below `size`.
void drop_duplicates(const Array& offsets, std::int64_t size, std::int64_t stride, const char* op);

void enumerate_move(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::indexing
