// Rows that belong to different matrices: the layers of a mixture of experts.
#pragma once

#include <optional>
#include <span>

#include "core/array.h"
#include "ops/matmul/row_groups.h"

namespace gpk::ops {

// result[i] = x[i] w[e]^T, e the expert of row i: x [m, k], w [experts, n, k], result [m, n]; one
// dtype: float16, bfloat16, float32 or float64. Sums as in matmul. All throw InvalidArgument.

// The first group_sizes[0] rows belong to expert 0, the next group_sizes[1] to expert 1 and so on;
// together m. A GEMM per group.
Array grouped_gemm(const Array& x, const Array& w, std::span<const std::int64_t> group_sizes,
                   const std::optional<Array>& out = std::nullopt);

// The same with sizes on the device (int32 or int64, one per expert), where they stay: nothing
// waits. Rows beyond the last group are zero; sizes beyond m are cut, negative ones count as 0.
Array grouped_gemm_by_sizes(const Array& x, const Array& w, const Array& group_sizes,
                            const std::optional<Array>& out = std::nullopt);

// The expert of each row, in any order (int32 or int64, m elements). Rows of experts that do not
// exist are zero.
Array grouped_gemm_by_expert(const Array& x, const Array& w, const Array& expert_ids,
                             const std::optional<Array>& out = std::nullopt);

// Each of them, by what the groups are.
Array grouped_gemm(const Array& x, const Array& w, const gemm::RowGroups& groups,
                   const std::optional<Array>& out);

namespace gemm {

// Throws InvalidArgument, starting with grouped_gemm, unless the groups are those of the rows of x
// and of the matrices of w [experts, n, k].
void check_row_groups(const RowGroups& groups, const Array& x, const Dims& w);

}  // namespace gemm
}  // namespace gpk::ops
