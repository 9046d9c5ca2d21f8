// Pages of caches [blocks, page, heads, dim].
#pragma once

#include <cstdint>
#include <optional>

#include "core/array.h"

namespace gpk::ops {

// int32 [tokens]: block_tables[sequence, position / page] * page + position % page, -1 where there
// is no block. block_tables are int32 [sequences, max_blocks], positions and sequences int32
// [tokens]; without `sequences` token i is of sequence i. Throws InvalidArgument.
Array slot_mapping(const Array& block_tables, const Array& positions,
                   const std::optional<Array>& sequences, std::int64_t page,
                   const std::optional<Array>& out);

// cache[to] = cache[from] of both caches, for pairs int32 [n, 2]. Throws InvalidArgument.
void copy_pages(const Array& k_cache, const std::optional<Array>& v_cache, const Array& pairs);

// [sequences, length, heads, dim], 0 from lengths[i] (int32) on and where there is no block. Throws
// InvalidArgument.
Array gather_pages(const Array& cache, const Array& block_tables, std::int64_t length,
                   const std::optional<Array>& lengths, const std::optional<Array>& out);

}  // namespace gpk::ops
