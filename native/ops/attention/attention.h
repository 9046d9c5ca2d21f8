// Scaled dot-product attention: softmax(scale q k^T + bias) v.
#pragma once

#include <cstdint>
#include <optional>

#include "core/array.h"

namespace gpk::ops {

struct AttentionOptions {
  bool causal = false;
  std::optional<Array> mask;  // bool, broadcasts to [batch, heads, q_len, kv_len]
  std::optional<Array> bias;  // float, the same
  std::int64_t window = 0;    // keys a query sees, its own included; 0: all
  double softcap = 0.0;
  std::optional<Array> sinks;         // float32 [heads]
  double scale = 0.0;                 // 0: 1 / sqrt(dim)
  std::optional<Array> lengths;       // int32 [batch]
  std::optional<Array> cu_seqlens_q;  // int32 [batch + 1]
  std::optional<Array> cu_seqlens_k;  // the same
  std::int64_t max_seqlen_q = 0;      // of packed queries; 0: all of them
  std::optional<Array> block_table;   // int32 [batch, blocks]
  double k_scale = 1.0;               // of 8-bit caches
  double v_scale = 1.0;
};

// q is [batch, q_len, heads, dim], k and v are [batch, kv_len, kv_heads, dim]; without batch, one
// sequence. With cu_seqlens q (and k, v) are packed, [total, heads, dim]; with a block table k and
// v are pages, [num_blocks, page, kv_heads, dim]. On a GPU nothing waits for it.
Array run_attention(const Array& q, const Array& k, const Array& v, const AttentionOptions& options,
                    const std::optional<Array>& out);

}  // namespace gpk::ops
