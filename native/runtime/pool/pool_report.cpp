// Statistics and snapshots of the pool.
#include <algorithm>

#include "base/text.h"
#include "runtime/pool/pool.h"

namespace gpk::runtime {
namespace {

void append_span(const PoolSpan& span, const PoolPending& pending, PoolPiece piece,
                 PoolSnapshot& pieces) {
  for (std::size_t i = 0; i < span.num_blocks; ++i) {
    const PoolBlock& block = span.blocks[i];
    piece.address = block.address;
    piece.bytes = block.bytes;
    const bool live = block.live.load(std::memory_order_relaxed);
    piece.kind =
        live ? PoolPiece::Kind::kUsed
             : (pending.contains(&block) ? PoolPiece::Kind::kPending : PoolPiece::Kind::kCached);
    pieces.push_back(piece);
  }
}

}  // namespace

PoolStats Pool::stats_with(const PoolCaches::Sums& sums) const {
  PoolStats stats;
  stats.quota_bytes = space_.quota_bytes();
  stats.reserved_bytes = space_.reserved_bytes();
  // Other threads may have freed, and trimmed, since the caches were sampled.
  stats.used_bytes = std::min(
      stats.reserved_bytes, static_cast<std::size_t>(central_used_bytes_.load() + sums.used_bytes));
  stats.cached_bytes = stats.reserved_bytes - stats.used_bytes;
  stats.spare_bytes = space_.num_spare() * space_.chunk_bytes();
  stats.pending_bytes = pending_.bytes();
  for (const auto& [key, arena] : arenas_) stats.set_aside_bytes += arena->hole_bytes;
  stats.peak_reserved_bytes = space_.peak_reserved_bytes();
  stats.largest_free_bytes = heap_.largest_hole(common_);
  const std::int64_t peak = central_used_bytes_.load() + sums.peak_bytes;
  stats.peak_used_bytes = static_cast<std::size_t>(std::max(peak, peak_used_bytes_.load()));
  stats.num_blocks = static_cast<std::size_t>(central_num_blocks_.load() + sums.num_blocks);
  stats.num_allocations =
      static_cast<std::size_t>(central_num_allocations_.load() + sums.num_allocations);
  stats.num_reuses = stats.num_allocations - num_fresh_;
  stats.num_driver_calls = device_.num_calls();
  stats.num_host_waits = device_.num_waits();
  const PoolEvictor::Counters& evictions = evictor_.counters();
  stats.evicted_bytes = evictions.evicted_bytes;
  stats.num_evictions = evictions.num_evictions;
  stats.num_restores = evictions.num_restores;
  stats.evicted_total_bytes = evictions.evicted_total_bytes;
  stats.restored_total_bytes = evictions.restored_total_bytes;
  stats.host_bytes = evictor_.host_bytes();
  return stats;
}

PoolStats Pool::stats() const {
  const PoolCaches::Sums sums = caches_.sums();
  const Lock lock(mutex_);
  return stats_with(sums);
}

std::vector<PoolAccountStats> Pool::account_stats() const {
  const Lock lock(mutex_);
  std::vector<PoolAccountStats> stats;
  for (const auto& account : accounts_)
    if (!account->is_reservation()) stats.push_back(account->stats());
  return stats;
}

PoolSnapshot Pool::snapshot() const {
  const Lock lock(mutex_);
  PoolSnapshot pieces;
  for (const auto& region : space_.regions())
    for (const PoolRange* range = region->first; range != nullptr; range = range->next) {
      if (range->kind == PoolRange::Kind::kVoid) continue;
      PoolPiece piece;
      piece.address = range->address;
      piece.bytes = range->bytes;
      piece.stream_known = range->stream != nullptr;
      piece.stream = piece.stream_known ? range->stream->id : 0;
      piece.arena = range->arena->id;
      if (range->span != nullptr) {
        append_span(*range->span, pending_, piece, pieces);
        continue;
      }
      if (const PoolLarge* block = range->block) {
        piece.kind = block->evicted_bytes != 0 ? PoolPiece::Kind::kEvicted
                     : block->live.load()      ? PoolPiece::Kind::kUsed
                                               : PoolPiece::Kind::kPending;
        piece.account =
            block->live.load() && block->account != nullptr ? block->account->payer().id() : 0;
      }
      pieces.push_back(piece);
    }
  return pieces;
}

void Pool::throw_out_of_memory(Lock& lock, const char* what, std::size_t bytes,
                               const PoolAccount* account, bool account_refused) {
  lock.unlock();
  const PoolCaches::Sums sums = caches_.sums();
  lock.lock();
  const PoolStats stats = stats_with(sums);
  OutOfMemory::Numbers numbers;
  numbers.asked_bytes = bytes;
  numbers.used_bytes = stats.used_bytes;
  numbers.cached_bytes = stats.cached_bytes;
  numbers.reserved_bytes = stats.reserved_bytes;
  numbers.largest_free_bytes = stats.largest_free_bytes;
  numbers.limit_bytes = stats.quota_bytes;
  numbers.evicted_bytes = stats.evicted_bytes;
  numbers.device_free_bytes = device_.free_bytes();
  numbers.account_refused = account_refused;
  if (account != nullptr) {
    const PoolAccountStats payer = account->payer().stats();
    numbers.account = payer.name.empty() ? cat(payer.id) : payer.name;
    numbers.account_used_bytes = payer.used_bytes;
    numbers.account_limit_bytes = payer.limit_bytes;
  }
  throw OutOfMemory(what, numbers);
}

}  // namespace gpk::runtime
