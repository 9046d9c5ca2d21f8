#include "ops/matmul/packed_groups.h"

#include "base/error.h"
#include "base/text.h"
#include "ops/elementwise/copy.h"
#include "ops/matmul/grouped.h"
#include "ops/quantize/quantize.h"

namespace gpk::ops {
namespace {

constexpr const char* kOp = "grouped_linear";

void check_grouped_linear(const Array& x, const PackedWeight& w, const Array& sizes) {
  if (w.shape.size() != 3 || x.ndim() != 2 || x.shape()[1] != w.k())
    throw InvalidArgument(cat(kOp, ": x has shape ", to_string(x.shape()), ", w has shape ",
                              to_string(w.shape), ", expected (m, k) and (experts, n, k)"));
  if (sizes.dtype() != DType::kInt32 || sizes.shape() != Dims{w.shape[0]})
    throw InvalidArgument(cat(kOp, ": sizes has dtype ", name(sizes.dtype()), " and shape ",
                              to_string(sizes.shape()), ", expected int32 and (", w.shape[0],
                              ",)"));
  if (x.device() != w.device() || sizes.device() != w.device())
    throw InvalidArgument(cat(kOp, ": x is on ", to_string(x.device()), ", sizes on ",
                              to_string(sizes.device()), ", w on ", to_string(w.device())));
}

}  // namespace

Array grouped_linear(const Array& x, const PackedWeight& w, const Array& sizes, bool few_rows) {
  check_grouped_linear(x, w, sizes);
  if (few_rows && x.device().is_cuda()) {
    const Array result = Array::empty({x.shape()[0], w.n()}, x.dtype(), x.device(), kOp);
    if (gemm::launch_packed_groups(contiguous(x, kOp), w, contiguous(sizes, kOp), result))
      return result;
  }
  return grouped_gemm_by_sizes(x, dequantize(w, x.dtype(), std::nullopt, kOp), sizes);
}

}  // namespace gpk::ops
