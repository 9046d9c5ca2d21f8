// The queue of transfers: what is to be copied, in which order, and how far it got. It counts and
// orders; TransferEngine moves the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/clock.h"

namespace gpk::runtime {

using TransferId = std::uint64_t;  // from 1; 0: none

enum class TransferType { kH2D, kD2H, kD2D };
enum class TransferState { kQueued, kInProgress, kCompleted, kFailed, kCancelled };
inline constexpr int kNumTransferTypes = 3;

// "h2d", "d2h", "d2d"; anything else throws kValue.
[[nodiscard]] TransferType transfer_type_from_name(std::string_view name);
[[nodiscard]] const char* to_string(TransferType type) noexcept;
[[nodiscard]] const char* to_string(TransferState state) noexcept;
// The number of a direction's stream: D2D 0, H2D 1, D2H 2.
[[nodiscard]] int transfer_stream(TransferType type) noexcept;
[[nodiscard]] bool is_terminal(TransferState state) noexcept;

struct TransferOp {
  TransferId id = 0;
  TransferType type = TransferType::kH2D;
  TransferState state = TransferState::kQueued;
  std::uint64_t src = 0;
  std::uint64_t dst = 0;
  std::size_t size_bytes = 0;
  int priority = 0;
  std::int64_t queued_ns = 0;
  std::int64_t started_ns = -1;   // -1: not yet
  std::int64_t finished_ns = -1;  // -1: not yet
  std::string error;

  // Seconds from enqueue to start, and from start to end; 0 while not known.
  [[nodiscard]] double wait_time_s() const noexcept;
  [[nodiscard]] double duration_s() const noexcept;
  // 10^9 bytes per second; 0 while not known.
  [[nodiscard]] double bandwidth_gb_s() const noexcept;
};

struct TransferStats {
  struct Direction {
    std::uint64_t num_enqueued = 0;
    std::uint64_t num_completed = 0;
    std::uint64_t completed_bytes = 0;
    std::size_t num_queued = 0;       // now
    std::size_t num_in_progress = 0;  // now
    std::size_t queued_bytes = 0;     // now
    std::int64_t transfer_ns = 0;     // sum over completed transfers
    std::int64_t wait_ns = 0;         // sum over started transfers
    // Over the time of each transfer by itself: transfers that overlap share the link.
    [[nodiscard]] double bandwidth_gb_s() const noexcept;
  };
  std::array<Direction, kNumTransferTypes> by_type;  // indexed by TransferType
  std::uint64_t num_failed = 0;
  std::uint64_t num_cancelled = 0;
  [[nodiscard]] const Direction& of(TransferType type) const {
    return by_type[static_cast<std::size_t>(type)];
  }
  [[nodiscard]] Direction total() const noexcept;
};

// Thread safe. State changes return false when the transfer is unknown or in another state.
class TransferQueue {
 public:
  // `max_concurrent` >= 1 transfers in progress per stream through get_ready(). `clock` outlives
  // the queue.
  explicit TransferQueue(const Clock& clock, std::size_t max_concurrent = 4);

  TransferId enqueue(TransferType type, std::uint64_t src, std::uint64_t dst,
                     std::size_t size_bytes, int priority = 0);

  // Up to `max` transfers that may start now; they are in progress afterwards. H2D first, then D2H,
  // then D2D; higher priority first, then first come.
  std::vector<TransferOp> get_ready(std::size_t max);

  bool start(TransferId id);                         // Queued -> InProgress, whatever is in flight
  bool complete(TransferId id);                      // InProgress -> Completed
  bool fail(TransferId id, std::string error = "");  // InProgress -> Failed
  bool cancel(TransferId id);                        // Queued -> Cancelled
  bool abort(TransferId id);                         // InProgress -> Cancelled

  [[nodiscard]] std::optional<TransferOp> get(TransferId id) const;
  // Ids in progress on a stream (0, 1, 2), ascending; kValue for another number.
  [[nodiscard]] std::vector<TransferId> in_progress(int stream) const;
  [[nodiscard]] bool has_pending_work() const;  // queued or in progress
  [[nodiscard]] TransferStats stats() const;
  [[nodiscard]] std::size_t max_concurrent() const noexcept { return max_concurrent_; }

  // Removes one finished transfer and returns it; nothing when it is unknown or not finished.
  std::optional<TransferOp> take(TransferId id);
  // Forgets finished transfers; returns how many.
  std::size_t gc();
  // Forgets everything, also the statistics. Ids are not used again.
  void clear();

 private:
  struct Lane {
    std::set<std::pair<std::int64_t, TransferId>> queued;  // (-priority, id)
    std::set<TransferId> in_progress;
  };

  [[nodiscard]] Lane& lane(TransferType type) { return lanes_[static_cast<std::size_t>(type)]; }
  TransferOp* find(TransferId id, TransferState state);
  void begin(TransferOp& op);
  bool finish(TransferId id, TransferState state, std::string error);

  const Clock& clock_;
  const std::size_t max_concurrent_;
  mutable std::mutex mutex_;
  TransferId next_id_ = 1;
  std::map<TransferId, TransferOp> ops_;
  std::array<Lane, kNumTransferTypes> lanes_;
  TransferStats stats_;
};

}  // namespace gpk::runtime
