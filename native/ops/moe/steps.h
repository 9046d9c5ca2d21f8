// The steps of a mixture of experts as 0.2 cut them: each writes to arrays of the caller.
#pragma once

#include <cstdint>

#include "core/array.h"

namespace gpk::ops {

// All throw InvalidArgument. tokens * k choices, "slots", have number token * k + choice.

// The k largest logits [tokens, experts] of each token and their experts (int32): [tokens, k].
void moe_topk_with_indices(const Array& logits, const Array& values, const Array& indices,
                           std::int64_t k);
// values [tokens, k] become their softmax.
void moe_softmax_topk(const Array& values, std::int64_t k);

// int32: expert_counts [num_experts], expert_offsets [num_experts + 1], and for tokens * k slots
// the slot of each row sorted by expert (permute_indices) and the row of each slot (reverse_perm).
struct MoePermutationTargets {
  Array expert_counts, expert_offsets, permute_indices, reverse_perm;
};
void moe_compute_permutation(const Array& expert_indices, const MoePermutationTargets& to,
                             std::int64_t num_experts, std::int64_t k);

// gathered[i] = hidden[permute_indices[i] / k].
void moe_gather(const Array& hidden, const Array& permute_indices, const Array& gathered,
                std::int64_t k);
// output[t] = sum over j of router_weights[t, j] * expert_outputs[reverse_perm[t * k + j]].
void moe_scatter(const Array& expert_outputs, const Array& router_weights,
                 const Array& reverse_perm, const Array& output, std::int64_t k);

// The expert of each row, num_experts beyond the last; expert_offsets has num_experts + 1 elements.
void moe_expand_expert_offsets(const Array& expert_offsets, const Array& row_expert_ids,
                               std::int64_t num_experts);

}  // namespace gpk::ops
