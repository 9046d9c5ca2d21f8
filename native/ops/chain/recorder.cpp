#include "ops/chain/recorder.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/device_address.h"

namespace gpk::ops::chain {
namespace {

using kernels::ChainKind;
using kernels::ChainPhase;

constexpr std::int64_t kAlign = 128;  // bytes, of the parts of shared memory
constexpr std::int64_t kMaxUnits = std::numeric_limits<std::int32_t>::max() / 2;
// Their threads are counted in 32 bits.
constexpr std::int64_t kMaxWriteUnits = (std::int64_t{1} << 31) / (32 * kernels::kChainWarps);
constexpr unsigned kWideIndices = kernels::kWideSlots | kernels::kWidePositions;

static_assert(sizeof(kernels::GemvArgs) + sizeof(kernels::EpilogueArgs) <= ChainPhase::kWorkBytes);
static_assert(sizeof(kernels::AttentionArgs) <= ChainPhase::kSecond);
static_assert(ChainPhase::kSecond + sizeof(kernels::KvWriteArgs) <= ChainPhase::kWorkBytes);

// Of a token.
std::int64_t heads_of(const kernels::KvWriteArgs& args) {
  return std::int64_t{args.q_heads} + 2 * std::int64_t{args.kv_heads};
}

template <class Work>
void put(ChainPhase& phase, const Work& work, std::size_t at = 0) {
  static_assert(sizeof(Work) <= ChainPhase::kWorkBytes);
  std::memcpy(phase.work + at, &work, sizeof(Work));
}

template <class Work>
Work work_of(const ChainPhase& phase, std::size_t at = 0) {
  Work work;
  std::memcpy(&work, phase.work + at, sizeof(Work));
  return work;
}

bool has_tables(const kernels::ChainTables& t, const kernels::KvWriteArgs& args) {
  return args.slots == t.slots && args.positions == t.positions &&
         (args.wide & kWideIndices) == 0 && args.num_rows == t.rows * heads_of(args);
}

bool has_tables(const kernels::ChainTables& t, const kernels::AttentionArgs& args) {
  return args.lengths == t.lengths && args.blocks == t.blocks && args.batch == t.rows &&
         args.blocks_row == t.blocks_row;
}

unsigned table_flags(const kernels::ChainTables& t, const ChainPhase& phase) {
  unsigned flags = 0;
  const bool attends = phase.kind == ChainKind::kAttention;
  if (attends && has_tables(t, work_of<kernels::AttentionArgs>(phase)))
    flags |= kernels::kChainAttentionTables;
  const bool writes =
      phase.kind == ChainKind::kKvWrite || (phase.flags & kernels::kChainWrites) != 0;
  const std::size_t at = attends ? ChainPhase::kSecond : 0;
  if (writes && has_tables(t, work_of<kernels::KvWriteArgs>(phase, at)))
    flags |= kernels::kChainWriteTables;
  return flags;
}

}  // namespace

void Recorder::refuse(const std::string& what) { throw NotChained(what); }

void Recorder::keep(const Array& array) {
  for (const Array& kept : recording_.arrays)
    if (kept.buffer() == array.buffer()) return;
  recording_.arrays.push_back(array);
}

void Recorder::agree(std::optional<DType>& known, DType dtype, const char* what) {
  if (known && *known != dtype) refuse(cat(what, " of ", name(*known), " and of ", name(dtype)));
  known = dtype;
}

ChainPhase& Recorder::add(ChainKind kind, std::int64_t num_units, std::string line,
                          const Operands& operands) {
  std::int64_t& before = num_units_[static_cast<int>(kind)];
  const std::int64_t most = kind == ChainKind::kKvWrite ? kMaxWriteUnits : kMaxUnits;
  if (num_units > most || before > kMaxUnits) refuse("too much work to be counted in 32 bits");
  ChainPhase& phase = recording_.phases.emplace_back();
  phase = {};
  phase.kind = kind;
  phase.num_units = static_cast<int>(num_units);
  phase.first_unit_offset = static_cast<int>(before);
  before += num_units;
  recording_.lines.push_back(std::move(line));
  for (const Array* array : operands.all)
    if (array != nullptr) keep(*array);
  for (const Array* array : operands.written)
    if (array != nullptr) written_.push_back(*array);
  return phase;
}

void Recorder::add_gemv(kernels::GemvArgs args, const kernels::EpilogueArgs& epilogue, DType dtype,
                        bool gated, bool fits, const Array* w, const Operands& operands) {
  if (!fits) refuse("matmul: not the few-rows GEMV with cluster split-K");
  if (args.m > kernels::kChainRows)
    refuse(cat("matmul: ", args.m, " rows, up to ", int{kernels::kChainRows}, " are chained"));
  const auto writes_w = [&](const Array& written) { return may_overlap(*w, written); };
  if (w != nullptr && std::ranges::any_of(written_, writes_w))
    refuse("matmul: a launch before it writes w");
  agree(recording_.dtype, dtype, "linear layers");
  const std::int64_t warps = args.k_warps;
  const std::int64_t rows = 16 * kernels::kChainWarps / warps;
  recording_.stage_bytes =
      std::max<std::int64_t>(recording_.stage_bytes, rows * (256 * warps + 64));
  recording_.row_bytes = std::max<std::int64_t>(recording_.row_bytes,
                                                args.m * (args.k + kernels::kChainRowPadding) * 2);
  args.partial = nullptr;
  if (norm_) {
    args.norm_weight = address(norm_->weight);
    args.norm_bias = address(norm_->bias);
    args.norm_centred = norm_->centred ? 1 : 0;
    args.norm_eps = norm_->eps;
    args.norm_offset = norm_->offset;
  }
  ChainPhase& phase = add(ChainKind::kGemv, ceil_div(std::int64_t{args.n}, rows),
                          cat(norm_ ? "norm, " : "", gated ? "gated " : "", "gemv ", args.m, " x ",
                              args.n, " x ", args.k),
                          operands);
  phase.flags = (gated ? kernels::kChainGated : 0u) | (norm_ ? kernels::kChainNormed : 0u);
  if (norm_) keep(norm_->weight);
  if (norm_ && norm_->bias) keep(*norm_->bias);
  norm_.reset();
  put(phase, args);
  put(phase, epilogue, sizeof(args));
}

void Recorder::note_tables(const kernels::KvWriteArgs& args) {
  kernels::ChainTables& t = recording_.tables;
  if (t.slots != nullptr || (args.wide & kWideIndices) != 0 || args.positions == nullptr) return;
  t.slots = static_cast<const int*>(args.slots);
  t.positions = static_cast<const int*>(args.positions);
  table_tokens_ = args.num_rows / heads_of(args);
}

void Recorder::note_tables(const kernels::AttentionArgs& args) {
  kernels::ChainTables& t = recording_.tables;
  if (t.lengths != nullptr || args.lengths == nullptr || args.blocks == nullptr) return;
  t.lengths = args.lengths;
  t.blocks = args.blocks;
  t.rows = args.batch;
  t.blocks_row = args.blocks_row;
}

bool Recorder::takes_write(const kernels::AttentionArgs& args) const {
  if (recording_.phases.empty() || recording_.phases.back().kind != ChainKind::kKvWrite)
    return false;
  const auto write = work_of<kernels::KvWriteArgs>(recording_.phases.back());
  return args.batch == 1 && args.q_len == 1 && args.q == write.q_out &&
         args.heads == write.q_heads && args.k == write.k_cache.data &&
         args.v == write.v_cache.data && args.row_tiles == 1 && write.num_rows == heads_of(write);
}

Recording Recorder::take() {
  Recording taken = std::move(recording_);
  auto next = static_cast<int>(taken.phases.size());
  for (int p = next - 1; p >= 0; --p) {
    ChainPhase& phase = taken.phases[static_cast<std::size_t>(p)];
    phase.next_gemv = next;
    if (phase.kind == ChainKind::kGemv) next = p;
  }
  taken.first_gemv = next;
  const kernels::ChainTables& t = taken.tables;
  if (t.lengths == nullptr || t.slots == nullptr || table_tokens_ != t.rows ||
      t.rows * (3 + std::int64_t{t.blocks_row}) > kernels::kChainTableWords) {
    taken.tables = {};
    return taken;
  }
  for (ChainPhase& phase : taken.phases) phase.flags |= table_flags(t, phase);
  return taken;
}

void Recorder::add_kv_write(const kernels::KvWriteArgs& args, DType dtype, DType kv_dtype, int vec,
                            const Operands& operands) {
  if (vec != 8) refuse("kv_cache_write: heads whose accesses are not 16 bytes each");
  agree(recording_.dtype, dtype, "cache writes");
  agree(recording_.kv_dtype, kv_dtype, "caches");
  const std::int64_t per_unit = 32 * kernels::kChainWarps / args.group;
  ChainPhase& phase = add(ChainKind::kKvWrite, ceil_div(std::int64_t{args.num_rows}, per_unit),
                          cat("cache write of ", args.num_rows, " heads of ", args.dim), operands);
  put(phase, args);
  note_tables(args);
}

void Recorder::add_attention(const kernels::AttentionArgs& args, const Attention& launch,
                             const Operands& operands) {
  agree(recording_.dtype, launch.variant.dtype, "attention");
  agree(recording_.kv_dtype, launch.variant.kv_dtype, "caches");
  if (args.softcap != 0.0f) refuse("attention with a softcap");
  if (recording_.dim.value_or(launch.variant.dim) != launch.variant.dim)
    refuse("attention of several head dimensions");
  recording_.dim = launch.variant.dim;
  const std::int64_t tiles = launch.tiles * args.batch;
  std::string line =
      cat("attention of ", tiles, " tiles, up to ", args.kv_len, " keys of ", args.dim);
  std::optional<ChainPhase> write;
  auto bytes = static_cast<std::int64_t>(launch.shared_bytes);
  if (takes_write(args)) {
    write = recording_.phases.back();
    recording_.phases.pop_back();
    num_units_[static_cast<int>(ChainKind::kKvWrite)] -= write->num_units;
    line = cat(recording_.lines.back(), ", ", line);
    recording_.lines.pop_back();
    bytes = ceil_div(bytes, kAlign) * kAlign +
            ceil_div(std::int64_t{args.group} * args.dim * 2, kAlign) * kAlign;  // queries
  }
  ChainPhase& phase = add(ChainKind::kAttention, launch.blocks * tiles, std::move(line), operands);
  phase.blocks = static_cast<int>(launch.blocks);
  phase.tiles = static_cast<int>(launch.tiles);
  put(phase, args);
  if (write) {
    phase.flags = kernels::kChainWrites;
    std::memcpy(phase.work + ChainPhase::kSecond, write->work, sizeof(kernels::KvWriteArgs));
  }
  note_tables(args);
  recording_.row_bytes = std::max(recording_.row_bytes, bytes);
  recording_.num_counters = std::max(recording_.num_counters, tiles);
  recording_.num_parts = std::max(recording_.num_parts, launch.num_parts);
}

}  // namespace gpk::ops::chain
