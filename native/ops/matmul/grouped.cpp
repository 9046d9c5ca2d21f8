#include "ops/matmul/grouped.h"

#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/matmul/gemm_call.h"
#include "ops/matmul/layer.h"
#include "ops/matmul/precision.h"
#include "ops/matmul/result.h"

namespace gpk::ops {
namespace {

constexpr const char* kOp = "grouped_gemm";

void check_experts(const Array& x, const Array& w) {
  gemm::check_layer_dtype(x, "x", kOp);
  gemm::check_like(w, "w", x, "x", kOp);
  if (x.ndim() != 2 || w.ndim() != 3 || x.shape()[1] != w.shape()[2])
    throw InvalidArgument(cat(kOp, ": x has shape ", to_string(x.shape()), ", w has shape ",
                              to_string(w.shape()), ", expected (m, k) and (experts, n, k)"));
  if (x.shape()[0] > std::numeric_limits<std::int32_t>::max())
    throw InvalidArgument(cat(kOp, ": x has ", x.shape()[0], " rows, expected up to 2**31 - 1"));
}

void check_indices(const Array& indices, const char* argument, std::int64_t count, const Array& x) {
  if (indices.dtype() != DType::kInt32 && indices.dtype() != DType::kInt64)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(kOp, ": ", argument, " has dtype ", name(indices.dtype()),
                              ", expected int32 or int64"));
  if (!(indices.device() == x.device()))
    throw InvalidArgument(cat(kOp, ": ", argument, " is on ", to_string(indices.device()),
                              ", x on ", to_string(x.device())));
  if (indices.ndim() != 1 || indices.size() != count)
    throw InvalidArgument(cat(kOp, ": ", argument, " has shape ", to_string(indices.shape()),
                              ", expected (", count, ",)"));
}

// Rows of x times the matrix of their group, with groups as they are.
Array run_groups(const Array& x, const Array& w, const gemm::RowGroups& groups,
                 const std::optional<Array>& out) {
  const Array* const indices = groups.device ? &*groups.device : nullptr;
  return gemm::fill_result(out, {x.shape()[0], w.shape()[1]}, x.dtype(), x.device(),
                           {&x, &w, indices}, kOp, [&](const Array& result) {
                             gemm::GemmCall call{x, permute(w, {0, 2, 1}, kOp), result};
                             call.tf32 =
                                 x.dtype() == DType::kFloat32 && gemm::tf32_allowed(std::nullopt);
                             call.groups = groups;
                             run_gemm(call, kOp);
                           });
}

}  // namespace

Array grouped_gemm(const Array& x, const Array& w, std::span<const std::int64_t> group_sizes,
                   const std::optional<Array>& out) {
  check_experts(x, w);
  const std::int64_t m = x.shape()[0];
  if (static_cast<std::int64_t>(group_sizes.size()) != w.shape()[0])
    throw InvalidArgument(cat(kOp, ": group_sizes has ", group_sizes.size(),
                              " elements, w has shape ", to_string(w.shape())));
  std::int64_t sum = 0;
  for (const std::int64_t size : group_sizes) {
    if (size < 0 || size > m - sum)
      throw InvalidArgument(
          cat(kOp, ": group_sizes are not negative and add up to the rows of x, ", m));
    sum += size;
  }
  if (sum != m)
    throw InvalidArgument(cat(kOp, ": group_sizes add up to ", sum, ", x has ", m, " rows"));
  return run_groups(x, w, {gemm::GroupKind::kSizes, group_sizes, std::nullopt}, out);
}

Array grouped_gemm_by_sizes(const Array& x, const Array& w, const Array& group_sizes,
                            const std::optional<Array>& out) {
  check_experts(x, w);
  check_indices(group_sizes, "group_sizes", w.shape()[0], x);
  return run_groups(x, w, {gemm::GroupKind::kSizes, {}, group_sizes}, out);
}

Array grouped_gemm_by_expert(const Array& x, const Array& w, const Array& expert_ids,
                             const std::optional<Array>& out) {
  check_experts(x, w);
  check_indices(expert_ids, "expert_ids", x.shape()[0], x);
  return run_groups(x, w, {gemm::GroupKind::kExpertIds, {}, expert_ids}, out);
}

}  // namespace gpk::ops
