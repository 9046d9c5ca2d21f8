// Which kernel computes an attention, and its tiles. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"
#include "plan/machine.h"

namespace gpk::ops::attention {

// What selects and shapes a kernel.
struct AttentionDesc {
  DType dtype = DType::kBFloat16;     // of q and the result
  DType kv_dtype = DType::kBFloat16;  // of k and v
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t q_len = 1;   // of the longest sequence
  std::int64_t kv_len = 1;  // of the longest sequence, or room for it
  std::int64_t dim = 128;
  std::int64_t value_dim = 128;
  bool causal = false;
  bool softcap = false;
  bool masked = false;  // by an array, or with a bias
  bool paged = false;
  bool packed = false;  // cu_seqlens
  bool aligned = true;  // rows start at 16-byte boundaries
  bool forward = true;  // and no stride is 0 or negative, as TMA wants it
};

enum class Engine : std::uint8_t { kPrefill, kDecode, kTile, kSimt };
inline constexpr std::uint8_t kWidenPages = 4;  // a kernel beside those of the engines

struct AttentionPlan {
  Engine engine = Engine::kSimt;
  int dim = 256;      // of the kernel: `dim` and `value_dim` fit
  int tile_n = 32;    // keys of a tile
  int consumers = 2;  // prefill: warpgroups of 64 queries
  int stages = 2;
  int split_log2 = 8;   // decode: keys of a split; depends on kv_len alone
  int splits_log2 = 0;  // decode: splits of a block
  friend bool operator==(const AttentionPlan&, const AttentionPlan&) = default;
};

AttentionPlan plan_attention(const AttentionDesc& desc, const plan::Machine& machine);
std::string to_string(const AttentionPlan& plan);  // "prefill(dim=128, tile=128x128, stages=2)"

// Rows of the decode kernel's MMA tiles: heads of a key head times queries.
std::int64_t decode_row_tiles(const AttentionDesc& desc);
// Kernels load keys from a multiple of this on: those of a tile or, of decode, a split.
int first_key_multiple(const AttentionPlan& plan);
// Heads whose keys and values share the L2 during prefill.
std::int64_t prefill_section(const AttentionDesc& desc, const plan::Machine& machine);
std::size_t shared_bytes(const AttentionDesc& desc, const AttentionPlan& plan);

}  // namespace gpk::ops::attention
