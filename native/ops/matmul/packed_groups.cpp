#include "ops/matmul/packed_groups.h"

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/checks.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/matmul/gemm_call.h"
#include "ops/matmul/grouped.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/result.h"
#include "ops/quantize/quantize.h"

namespace gpk::ops {
namespace {

constexpr const char* kOp = "grouped_linear";

void check_grouped_linear(const Array& x, const PackedWeight& w, const Array& sizes) {
  if (w.shape.size() != 3 || x.ndim() != 2 || x.shape()[1] != w.k())
    throw InvalidArgument(cat(kOp, ": x has shape ", to_string(x.shape()), ", w has shape ",
                              to_string(w.shape), ", expected (m, k) and (experts, n, k)"));
  check_dtype(sizes, "sizes", DType::kInt32, kOp);
  check_shape(sizes, "sizes", {w.shape[0]}, kOp);
  check_device(w.values, "w", x.device(), "x", kOp);
  check_device(sizes, "sizes", x.device(), "x", kOp);
}

constexpr const char* kGemm = "grouped_gemm";

void check_stack(const Array& x, const PackedWeight& w) {
  if (x.dtype() != DType::kFloat16 && x.dtype() != DType::kBFloat16 && x.dtype() != DType::kFloat32)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(kGemm, ": x has dtype ", name(x.dtype()),
                              ", packed weights take float16, bfloat16 or float32"));
  if (x.ndim() != 2 || w.shape.size() != 3 || x.shape()[1] != w.k())
    throw InvalidArgument(cat(kGemm, ": x has shape ", to_string(x.shape()), ", w has shape ",
                              to_string(w.shape), ", expected (m, k) and (experts, n, k)"));
  check_device(w.values, "w", x.device(), "x", kGemm);
}

// A layer for each group: only matrices with rows are read.
void multiply_each(const Array& x, const PackedWeight& w, std::span<const std::int64_t> sizes,
                   const Array& result) {
  std::int64_t first = 0;
  for (std::size_t e = 0; e < sizes.size(); ++e) {
    if (sizes[e] == 0) continue;
    LinearOptions options;
    options.out = slice_axis(result, 0, first, sizes[e], 1);
    linear(slice_axis(x, 0, first, sizes[e], 1), matrix_of(w, static_cast<std::int64_t>(e)),
           options, kGemm);
    first += sizes[e];
  }
}

// By the kernel of few rows; false: none takes them.
bool multiply_few(const Array& x, const PackedWeight& w, const gemm::RowGroups& groups,
                  const Array& result) {
  const bool takes = groups.kind == gemm::GroupKind::kSizes && x.device().is_cuda() &&
                     x.shape()[0] <= kMaxFewRows && result.is_contiguous() &&
                     groups.device->dtype() == DType::kInt32;
  if (!takes) return false;
  fill(result, Scalar(0.0), kGemm);  // rows of no group
  return gemm::launch_packed_groups(contiguous(x, kGemm), w, contiguous(*groups.device, kGemm),
                                    result, kGemm);
}

// As numbers, of which those of experts without rows are undefined where sizes say so.
Array dense_stack(const PackedWeight& w, DType dtype, const gemm::RowGroups& groups,
                  const char* op) {
  const bool known =
      groups.kind == gemm::GroupKind::kSizes && groups.device->dtype() == DType::kInt32;
  if (!known) return dequantize(w, dtype, std::nullopt, op);
  return dequantize_used(w, dtype, contiguous(*groups.device, op), op);
}

}  // namespace

Array grouped_gemm(const Array& x, const PackedWeight& w, const gemm::RowGroups& groups,
                   const std::optional<Array>& out) {
  check_stack(x, w);
  gemm::check_row_groups(groups, x, w.shape);
  const Array* const indices = groups.device ? &*groups.device : nullptr;
  return gemm::fill_result(out, {x.shape()[0], w.n()}, x.dtype(), x.device(),
                           {&x, &w.values, indices}, kGemm, [&](const Array& result) {
                             if (!groups.device) return multiply_each(x, w, groups.host, result);
                             if (multiply_few(x, w, groups, result)) return;
                             grouped_gemm(x, dense_stack(w, x.dtype(), groups, kGemm), groups,
                                          result);
                           });
}

Array grouped_linear(const Array& x, const PackedWeight& w, const Array& sizes, bool few_rows) {
  check_grouped_linear(x, w, sizes);
  if (few_rows && x.device().is_cuda()) {
    const Array result = Array::empty({x.shape()[0], w.n()}, x.dtype(), x.device(), kOp);
    if (gemm::launch_packed_groups(contiguous(x, kOp), w, contiguous(sizes, kOp), result, kOp))
      return result;
  }
  const Array dense = dequantize_used(w, x.dtype(), contiguous(sizes, kOp), kOp);
  return grouped_gemm_by_sizes(x, dense, sizes);
}

}  // namespace gpk::ops
