// What the kernels of kernels/attention take. Strides are in elements; q and out are [batch, q_len,
// heads, dim], k and v [batch, kv_len, kv_heads, dim], contiguous along the last axis.
#pragma once

namespace gpk::kernels {

// No bound, for AttentionArgs::left and right.
inline constexpr int kUnbounded = 1 << 30;

// A head of one sequence is addressed by batch and head, its rows by `row`.
struct AttentionStrides {
  long long batch;
  long long row;
  long long head;
};

// Query i of a sequence sees the keys i + shift - left ... i + shift + right of its `length` keys,
// where shift is length - q_len. left and right may be kUnbounded.
struct AttentionArgs {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  const int* lengths;   // keys of each sequence; nullptr: kv_len
  const int* q_starts;  // [batch + 1]: rows of each sequence in a packed q; nullptr: batch strides
  const int* k_starts;  // the same of k and v
  const int* blocks;    // pages of each sequence, [batch, blocks_row]; nullptr: contiguous
  const bool* mask;     // false: not seen; nullptr: none
  const float* bias;    // added to the scaled scores; nullptr: none
  const float* sinks;   // per head, a logit without a value; nullptr: none
  float* parts;         // decode: results of the splits
  unsigned* counters;   // decode: zero before and after
  AttentionStrides q_at;
  AttentionStrides k_at;  // paged: batch is the stride from page to page
  AttentionStrides v_at;
  AttentionStrides out_at;
  AttentionStrides mask_at;
  AttentionStrides bias_at;
  long long mask_step;  // along the keys
  long long bias_step;
  int batch;
  int heads;
  int group;   // query heads of a key head
  int q_len;   // of the longest sequence
  int kv_len;  // of the longest sequence, or room for it
  int dim;     // of q and k
  int value_dim;
  int left;
  int right;
  int blocks_row;
  int page_log2;    // keys of a page
  int split_log2;   // decode: keys whose result is a part
  int splits_log2;  // decode: splits of a block
  int row_tiles;    // decode: tiles of 16 rows, of `group` heads times q_len queries
  int section;      // prefill: heads whose keys and values share the L2
  int page_rows;    // prefill: keys of a page that one copy loads
  float scale;      // of the scores, times log2(e)
  float softcap;    // 0: none; else scores become softcap * tanh(score / softcap)
  float v_scale;    // of 8-bit values (that of keys is part of `scale`)
};
static_assert(sizeof(AttentionArgs) == 344 && __is_trivially_copyable(AttentionArgs));

// Pages of keys and values in another dtype, contiguous: kernels/attention/widen_pages.cuh.
struct WidePages {
  void* k;
  void* v;
  int* blocks;    // [batch, blocks_row]: their pages in k and v
  int num_pages;  // of AttentionArgs; other ids are pages of zeros
  int zero_page;  // pages keep their ids, and other ids become this one; -1: entry i gets page i
  int tile;       // keys: what comes next reads from a multiple of it on
  int unused;
};
static_assert(sizeof(WidePages) == 40 && __is_trivially_copyable(WidePages));

}  // namespace gpk::kernels
