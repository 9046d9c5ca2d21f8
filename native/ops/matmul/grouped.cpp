#include "ops/matmul/grouped.h"

#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/checks.h"
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
  check_device(indices, argument, x.device(), "x", kOp);
  if (indices.ndim() != 1 || indices.size() != count)
    throw InvalidArgument(cat(kOp, ": ", argument, " has shape ", to_string(indices.shape()),
                              ", expected (", count, ",)"));
}

void check_host_sizes(std::span<const std::int64_t> sizes, const Array& x, const Dims& w) {
  const std::int64_t m = x.shape()[0];
  if (static_cast<std::int64_t>(sizes.size()) != w[0])
    throw InvalidArgument(
        cat(kOp, ": group_sizes has ", sizes.size(), " elements, w has shape ", to_string(w)));
  std::int64_t sum = 0;
  for (std::size_t e = 0; e < sizes.size(); ++e) {
    if (sizes[e] < 0 || sizes[e] > m - sum)
      throw InvalidArgument(cat(kOp, ": group_sizes[", e, "] is ", sizes[e], ", expected 0 to ",
                                m - sum, ": they add up to the ", m, " rows of x"));
    sum += sizes[e];
  }
  if (sum != m)
    throw InvalidArgument(cat(kOp, ": group_sizes add up to ", sum, ", x has ", m, " rows"));
}

}  // namespace

namespace gemm {

void check_row_groups(const RowGroups& groups, const Array& x, const Dims& w) {
  if (groups.kind == GroupKind::kExpertIds)
    return check_indices(*groups.device, "expert_ids", x.shape()[0], x);
  if (groups.device) return check_indices(*groups.device, "group_sizes", w[0], x);
  check_host_sizes(groups.host, x, w);
}

}  // namespace gemm

Array grouped_gemm(const Array& x, const Array& w, const gemm::RowGroups& groups,
                   const std::optional<Array>& out) {
  check_experts(x, w);
  gemm::check_row_groups(groups, x, w.shape());
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

Array grouped_gemm(const Array& x, const Array& w, std::span<const std::int64_t> group_sizes,
                   const std::optional<Array>& out) {
  return grouped_gemm(x, w, {gemm::GroupKind::kSizes, group_sizes, std::nullopt}, out);
}

Array grouped_gemm_by_sizes(const Array& x, const Array& w, const Array& group_sizes,
                            const std::optional<Array>& out) {
  return grouped_gemm(x, w, {gemm::GroupKind::kSizes, {}, group_sizes}, out);
}

Array grouped_gemm_by_expert(const Array& x, const Array& w, const Array& expert_ids,
                             const std::optional<Array>& out) {
  return grouped_gemm(x, w, {gemm::GroupKind::kExpertIds, {}, expert_ids}, out);
}

}  // namespace gpk::ops
