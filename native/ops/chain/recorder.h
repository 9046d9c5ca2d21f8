// Launches handed over instead of launched. See chain.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "core/array.h"
#include "kernels/args/attention.h"
#include "kernels/args/chain.h"
#include "kernels/args/kv_cache.h"
#include "kernels/args/matmul.h"

namespace gpk::ops::chain {

// What selects the kernel's code.
struct Variant {
  DType dtype = DType::kBFloat16;
  DType kv_dtype = DType::kBFloat16;
  int dim = 64;
  friend bool operator==(const Variant&, const Variant&) = default;
};

struct Recording {
  std::vector<kernels::ChainPhase> phases;
  std::vector<std::string> lines;  // a description of each
  std::vector<Array> arrays;       // one of each buffer that they touch
  std::optional<DType> dtype, kv_dtype;
  std::optional<int> dim;         // of heads
  kernels::ChainTables tables{};  // of the first cache write and the first attention, if they fit
  int first_gemv = 0;
  std::int64_t stage_bytes = 0;  // of the largest stage
  std::int64_t row_bytes = 0;    // most that a phase needs beside the ring
  std::int64_t num_counters = 0;
  std::int64_t num_parts = 0;  // floats
};

// A launch that chains do not have. Never leaves Chain::record().
class NotChained : public Error {
 public:
  using Error::Error;
};

// Current on the thread that made it, until its end.
class Recorder {
 public:
  Recorder() : before_(current_) { current_ = this; }
  ~Recorder() { current_ = before_; }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  static Recorder* current() noexcept { return current_; }
  // Called by every launch that is none of those below. Throws NotChained while one is current.
  static void refuse_others(const char* name) {
    if (current_ != nullptr) [[unlikely]]
      refuse(name);
  }
  [[noreturn]] static void refuse(const std::string& what);

  // Rows of the next GEMV are normalised first.
  struct Norm {
    Array weight;
    std::optional<Array> bias;
    float eps, offset;  // added to the weight
    bool centred;       // layernorm, else rmsnorm
  };
  void norm_next(Norm norm) { norm_ = std::move(norm); }
  // What a launch touches; nullptr entries are skipped.
  struct Operands {
    std::span<const Array* const> all;
    std::span<const Array* const> written;  // of them
  };
  // Rows of w [n, k]; gated: 2 n. w is loaded before the launches in front of it have ended: none
  // of them may write it. `fits`: a launch of gemv_mma for few rows.
  void add_gemv(kernels::GemvArgs args, const kernels::EpilogueArgs& epilogue, DType dtype,
                bool gated, bool fits, const Array* w, const Operands& operands);
  void add_kv_write(const kernels::KvWriteArgs& args, DType dtype, DType kv_dtype, int vec,
                    const Operands& operands);
  // `blocks` groups of splits of `tiles` tiles of each sequence. Of one row, directly after the
  // write of its key and value, which is the newest key: the write becomes part of it.
  struct Attention {
    Variant variant;
    std::int64_t blocks, tiles, num_parts;
    std::size_t shared_bytes;
  };
  void add_attention(const kernels::AttentionArgs& args, const Attention& launch,
                     const Operands& operands);

  Recording take();

 private:
  kernels::ChainPhase& add(kernels::ChainKind kind, std::int64_t num_units, std::string line,
                           const Operands& operands);
  void keep(const Array& array);
  bool takes_write(const kernels::AttentionArgs& args) const;
  void note_tables(const kernels::KvWriteArgs& args);
  void note_tables(const kernels::AttentionArgs& args);
  void agree(std::optional<DType>& known, DType dtype, const char* what);

  static inline thread_local constinit Recorder* current_ = nullptr;
  Recorder* before_;
  Recording recording_;
  std::optional<Norm> norm_;
  std::vector<Array> written_;
  std::int64_t table_tokens_ = 0;   // of the cache write whose tables are noted
  std::int64_t num_units_[3] = {};  // so far, by kind
};

}  // namespace gpk::ops::chain
