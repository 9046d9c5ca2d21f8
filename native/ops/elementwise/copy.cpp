#include "ops/elementwise/copy.h"

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/map.h"
#include "ops/elementwise/packed.h"
#include "ops/elementwise/transpose.h"

namespace gpk::ops {
namespace {

using namespace elementwise;

// Bits are bits: copies within a dtype go by width, so that dtypes share kernels.
DType width_dtype(DType dtype) {
  switch (itemsize(dtype)) {
    case 1: return DType::kUInt8;
    case 2: return DType::kUInt16;
    case 4: return DType::kUInt32;
    case 8: return DType::kUInt64;
    default: return DType::kComplex128;
  }
}

// One piece of memory each, elements in the same order.
bool same_order(const Array& a, const Array& b) {
  if (!(a.shape() == b.shape())) return false;
  if (a.is_contiguous() && b.is_contiguous()) return true;
  for (int i = 0; i < a.ndim(); ++i)
    if (a.shape()[i] != 1 && a.strides()[i] != b.strides()[i]) return false;
  return is_dense_permuted(a);
}

Array flat(const Array& array) {
  return {Dims{array.size()}, Dims{1}, array.dtype(), array.buffer(), array.offset_elems()};
}

// Holds every value of `dtype`'s kind (bool: int64).
DType widest_of_kind(DType dtype) noexcept {
  switch (info(dtype).kind) {
    case DTypeClass::kFloat: return DType::kFloat64;
    case DTypeClass::kComplex: return DType::kComplex128;
    case DTypeClass::kUnsigned: return DType::kUInt64;
    default: return DType::kInt64;
  }
}

void copy_on_gpu(const Array& dst, const Array& src) {
  if (dst.dtype() == src.dtype() && same_order(dst, src)) {
    copy(flat(dst), flat(src), "copy");
    return;
  }
  const bool same = dst.dtype() == src.dtype();
  const Array to = same ? reinterpret(dst, width_dtype(dst.dtype())) : dst;
  const Array from = same ? reinterpret(src, width_dtype(src.dtype())) : src;
  if (same && transpose_copy(to, from)) return;
  const MapOperand operand{&from, {}};
  // Without NVRTC the one kernel for all dtypes goes through the widest type of the source's kind.
  run_map(kCopyOp, "copy", "Copy",
          jit::jit_available() ? from.dtype() : widest_of_kind(from.dtype()), {&operand, 1}, to);
}

bool is_packed(const Array& array) { return info(array.dtype()).bits == 4; }

void copy_packed(const Array& dst, const Array& src, const char* op) {
  if (dst.dtype() == src.dtype()) {
    copy(flat(dst), flat(src), op);
  } else if (is_packed(dst)) {
    pack4(dst, is_packed(src) ? copy_as(src, DType::kFloat32, op) : contiguous(src, op));
  } else if (dst.is_contiguous()) {
    unpack4(dst, src);
  } else {
    copy_into(dst, copy_as(src, dst.dtype(), op), op);
  }
}

}  // namespace

void copy_into(const Array& dst, const Array& src, const char* op) {
  if (!(dst.device() == src.device()))
    throw InvalidArgument(
        cat(op, ": the arrays are on ", to_string(dst.device()), " and ", to_string(src.device())));
  const Array from = broadcast_to(src, dst.shape(), op);
  if (dst.size() == 0) return;
  if (is_packed(dst) || is_packed(from)) {
    copy_packed(dst, from, op);
    return;
  }
  if (may_overlap(dst, from)) {
    if (dst.dtype() == from.dtype() && same_place(dst, from)) return;
    copy_into(dst, copy_as(from, from.dtype(), op), op);
  } else if (dst.device().is_cuda()) {
    copy_on_gpu(dst, from);
  } else {
    run_on_cpu({"copy", {from}, {dst}});
  }
}

Array copy_as(const Array& array, DType dtype, const char* op) {
  Array result = Array::empty(array.shape(), dtype, array.device(), op);
  copy_into(result, array, op);
  return result;
}

Array contiguous(const Array& array, const char* op) {
  return array.is_contiguous() ? array : copy_as(array, array.dtype(), op);
}

bool has_rows(const Array& array) {
  const int last = array.ndim() - 1;
  return array.shape()[last] <= 1 || array.strides()[last] == 1;
}

Array with_rows(const Array& array, const char* op) {
  return has_rows(array) ? array : contiguous(array, op);
}

Array cast(const Array& array, DType dtype, const char* op) {
  return array.dtype() == dtype ? array : copy_as(array, dtype, op);
}

Array reshape(const Array& array, const Dims& shape, const char* op) {
  const Dims target = resolve_shape(shape, array.size(), op);
  if (auto view = try_reshape(array, target)) return *view;
  return *try_reshape(copy_as(array, array.dtype(), op), target);
}

}  // namespace gpk::ops
