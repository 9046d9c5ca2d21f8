// New keys and values to slots of a cache, with what models do to them first.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

// A number, or a float32 array of one element on the device.
struct CacheScale {
  double value = 1.0;
  std::optional<Array> array;
};

struct KvCache {
  Array array;  // [blocks, page, kv_heads, dim] or [max, kv_heads, dim]; any strides but the last
  CacheScale scale;
};

struct KvWriteOptions {
  std::optional<Array> q;    // [tokens, q_heads, dim]
  std::optional<Array> cos;  // [rows, half]: half-split rotation of the first 2 * half elements
  std::optional<Array> sin;
  std::optional<Array> positions;  // int32 or int64 [tokens]: rows of the tables
  std::optional<Array> q_weight;   // [dim]: rmsnorm first
  std::optional<Array> k_weight;
  double eps = 1e-6;
  double offset = 0.0;  // added to the weights
};

// Writes k and v [tokens, kv_heads, dim] to `slots` (int32 or int64 [tokens]; others than those of
// the cache are skipped) in one launch, and returns what became of q, in `q_out` or a new array.
// Throws InvalidArgument.
std::optional<Array> kv_cache_write(const Array& k, const Array& v, const KvCache& k_cache,
                                    const KvCache& v_cache, const Array& slots,
                                    const KvWriteOptions& options,
                                    const std::optional<Array>& q_out);

}  // namespace gpk::ops
