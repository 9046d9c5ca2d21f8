#include "ops/moe/steps.h"

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/checks.h"
#include "ops/creation/ramp.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/indexing/take.h"
#include "ops/moe/permute.h"
#include "ops/moe/route.h"
#include "ops/moe/unpermute.h"
#include "ops/nn/softmax.h"
#include "ops/output.h"
#include "ops/reduction/scan.h"
#include "ops/sorting/search.h"

namespace gpk::ops {
namespace {

void check_target(const Array& array, const char* argument, const Dims& shape, const char* op) {
  check_shape(array, argument, shape, op);
  check_writable(array, op, argument);
}

// [tokens, k], or its elements in one dimension.
Array slots_of(const Array& array, const char* argument, std::int64_t k, const char* op) {
  if (k < 1 || array.ndim() < 1 || array.ndim() > 2 || array.size() % k != 0 ||
      (array.ndim() == 2 && array.shape()[1] != k))
    throw InvalidArgument(cat(op, ": ", argument, " has shape ", to_string(array.shape()),
                              ", expected (tokens, ", k, ") or (tokens * ", k, ",)"));
  return reshape(array, {array.size() / k, k}, op);
}

}  // namespace

void moe_topk_with_indices(const Array& logits, const Array& values, const Array& indices,
                           std::int64_t k) {
  constexpr const char* kOp = "moe_topk_with_indices";
  MoeRouteOptions options;
  options.scores = MoeScores::kLogits;
  check_dtype(indices, "indices", DType::kInt32, kOp);
  const std::int64_t tokens = logits.ndim() == 0 ? 0 : logits.shape()[0];
  check_target(values, "values", {tokens, k}, kOp);
  check_target(indices, "indices", {tokens, k}, kOp);
  const MoeRouting routing = moe_route(logits, k, options, kOp);
  copy_into(values, routing.weights, kOp);
  copy_into(indices, routing.experts, kOp);
}

void moe_softmax_topk(const Array& values, std::int64_t k) {
  constexpr const char* kOp = "moe_softmax_topk";
  if (values.ndim() != 2 || values.shape()[1] != k)
    throw InvalidArgument(
        cat(kOp, ": values has shape ", to_string(values.shape()), ", expected (tokens, ", k, ")"));
  softmax(values, {}, values);
}

void moe_compute_permutation(const Array& expert_indices, const MoePermutationTargets& to,
                             std::int64_t num_experts, std::int64_t k) {
  constexpr const char* kOp = "moe_compute_permutation";
  const Array experts = slots_of(expert_indices, "expert_indices", k, kOp);
  const Dims slots{experts.size()};
  check_target(to.expert_counts, "expert_counts", {num_experts}, kOp);
  check_target(to.expert_offsets, "expert_offsets", {num_experts + 1}, kOp);
  check_target(to.permute_indices, "permute_indices", slots, kOp);
  check_target(to.reverse_perm, "reverse_perm", slots, kOp);
  const MoeOrder order = moe_order(experts, num_experts, kOp);
  copy_into(to.expert_counts, order.sizes, kOp);
  ScanOptions options;
  options.include_initial = true;
  options.dtype = DType::kInt32;
  copy_into(to.expert_offsets, scan(OpId::cumsum, order.sizes, options), kOp);
  copy_into(to.permute_indices, order.slots, kOp);
  copy_into(to.reverse_perm, reshape(order.row_map, slots, kOp), kOp);
}

void moe_gather(const Array& hidden, const Array& permute_indices, const Array& gathered,
                std::int64_t k) {
  constexpr const char* kOp = "moe_gather";
  check_dtype(permute_indices, "permute_indices", DType::kInt32, kOp);
  if (hidden.ndim() != 2 || permute_indices.ndim() != 1 || k < 1)
    throw InvalidArgument(cat(kOp, ": hidden has shape ", to_string(hidden.shape()),
                              ", permute_indices ", to_string(permute_indices.shape()), ", k is ",
                              k, "; expected (tokens, n), (tokens * k,) and k >= 1"));
  check_target(gathered, "gathered", {permute_indices.size(), hidden.shape()[1]}, kOp);
  const Array tokens = floor_divide(permute_indices, Scalar(k));
  take(hidden, tokens, 0, IndexMode::kClip, gathered);
}

void moe_scatter(const Array& expert_outputs, const Array& router_weights,
                 const Array& reverse_perm, const Array& output, std::int64_t k) {
  constexpr const char* kOp = "moe_scatter";
  const Array places = slots_of(reverse_perm, "reverse_perm", k, kOp);
  const Array weights = slots_of(router_weights, "router_weights", k, kOp);
  moe_unpermute(expert_outputs, places, weights, output, kOp);
}

void moe_expand_expert_offsets(const Array& expert_offsets, const Array& row_expert_ids,
                               std::int64_t num_experts) {
  constexpr const char* kOp = "moe_expand_expert_offsets";
  check_dtype(expert_offsets, "expert_offsets", DType::kInt32, kOp);
  if (expert_offsets.ndim() != 1 || expert_offsets.size() < 1 ||
      expert_offsets.size() - 1 != num_experts)
    throw InvalidArgument(cat(kOp, ": expert_offsets has shape ", to_string(expert_offsets.shape()),
                              ", expected (", num_experts, " + 1,)"));
  check_dtype(row_expert_ids, "row_expert_ids", DType::kInt32, kOp);
  check_target(row_expert_ids, "row_expert_ids", {row_expert_ids.size()}, kOp);
  const Array ends = slice_axis(expert_offsets, 0, 1, num_experts, 1);
  const Array rows = arange(row_expert_ids.size(), Scalar(std::int64_t{0}), Scalar(std::int64_t{1}),
                            DType::kInt32, expert_offsets.device());
  copy_into(row_expert_ids, searchsorted(ends, rows, Side::kRight), kOp);
}

}  // namespace gpk::ops
