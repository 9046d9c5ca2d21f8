// One direction of the transfer engine: which chunk is next, what is in flight, what is done.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "runtime/sharing/pacing_share.h"
#include "runtime/transfer/staging_copier.h"
#include "runtime/transfer/staging_ring.h"
#include "runtime/transfer/transfer.h"
#include "runtime/transfer/transfer_device.h"

namespace gpk::runtime {

// A transfer as the engine and its futures share it. The request does not change once it is shared,
// `result` and `error` not once it is `done`; the rest is under the engine's lock.
struct Transfer {
  TransferType type = TransferType::kH2D;
  std::uint64_t dst = 0;
  std::uint64_t src = 0;
  std::size_t bytes = 0;
  std::size_t chunk_bytes = 0;
  int priority = 0;
  bool staged = false;  // through pinned memory: the host side is pageable
  std::optional<SharePacer::MemberId> member;
  std::function<void(const TransferOp&)> on_done;

  TransferId id = 0;
  DeviceEvents::EventId after = 0;  // 0: none, or done
  std::size_t issued_bytes = 0;
  std::size_t num_chunks_in_flight = 0;
  bool stopped = false;  // no more chunks: failed or cancelled
  bool cancelled = false;
  bool demands = false;  // counted by the pacer

  std::exception_ptr error;
  TransferOp result;
  std::atomic<bool> done{false};
};

struct LaneStats {
  std::uint64_t num_submitted = 0;
  std::uint64_t num_completed = 0;
  std::uint64_t num_failed = 0;
  std::uint64_t num_cancelled = 0;
  std::uint64_t num_chunks = 0;
  std::uint64_t copied_bytes = 0;  // of chunks that arrived
  std::uint64_t staged_bytes = 0;  // of those, through pinned memory
  std::int64_t busy_ns = 0;        // time with at least one chunk in flight
  std::int64_t wait_ns = 0;        // from submission to first chunk, over all transfers
  std::int64_t max_wait_ns = 0;
  std::size_t queue_depth = 0;  // transfers with chunks still to start, now
  std::size_t max_queue_depth = 0;
  std::size_t in_flight_bytes = 0;  // now
  std::size_t max_in_flight_bytes = 0;
  [[nodiscard]] double gb_s() const noexcept;  // 10^9 bytes per busy second
};

// Thread safe by the engine's lock: every method is called with it held, and those that take it as
// an argument release it while they copy, wait or call back.
class TransferLane {
 public:
  using Lock = std::unique_lock<std::mutex>;
  struct Limits {
    std::size_t chunk_bytes;
    std::size_t max_in_flight_bytes;
  };

  TransferLane(TransferType type, CopyDevice& device, const Clock& clock, HostCopier& copier,
               SharePacer* pacer, Limits limits);

  void add(std::shared_ptr<Transfer> transfer);
  // True when the transfer will not complete: nothing of it starts any more.
  bool cancel(const std::shared_ptr<Transfer>& transfer);
  void cancel_all();

  // Moves transfers on until `until` holds, taking turns with other threads that do the same:
  // one at a time drives. Sleeps while there is nothing to do.
  void drive(Lock& lock, const std::function<bool()>& until);
  // One pass without blocking; false when nothing moved or another thread drives.
  bool pump(Lock& lock);
  // Calls back for what is done.
  void run_callbacks(Lock& lock);
  // Makes every sleeping thread look again.
  void wake() noexcept;

  [[nodiscard]] bool empty() const noexcept { return waiting_.empty() && num_in_flight_ == 0; }
  [[nodiscard]] LaneStats stats() const;

 private:
  struct Chunk {
    std::shared_ptr<Transfer> transfer;
    std::size_t offset = 0;
    std::size_t bytes = 0;
    void* staging = nullptr;
    DeviceEvents::EventId event = 0;  // 0: nothing of it is running
    std::exception_ptr error;
  };
  using Key = std::pair<std::int64_t, TransferId>;  // (-priority, id)
  enum class Step { kMoved, kBlocked, kIdle };
  class DriverRole;

  static Key key(const Transfer& transfer) {
    return {-static_cast<std::int64_t>(transfer.priority), transfer.id};
  }
  Step step(Lock& lock, bool may_block);
  bool ready(Transfer& transfer);
  void begin_demand(Transfer& transfer);
  void end_demand(Transfer& transfer) noexcept;
  std::shared_ptr<Transfer> next_to_issue();
  void issue(Lock& lock, const std::shared_ptr<Transfer>& transfer);
  void start_copy(Chunk& chunk);
  bool head_done(Lock& lock, bool block);
  void retire_head(Lock& lock);
  void copy_out(Chunk& chunk);
  void stop(Transfer& transfer, std::exception_ptr error);
  void leave_line(Transfer& transfer);
  void finish_if_over(const std::shared_ptr<Transfer>& transfer);
  void count_in_flight(std::size_t bytes, bool started);
  void synchronize_quietly() noexcept;

  const TransferType type_;
  CopyDevice& device_;
  const Clock& clock_;
  HostCopier& copier_;
  SharePacer* const pacer_;
  const Limits limits_;

  std::map<Key, std::shared_ptr<Transfer>> waiting_;     // chunks still to start
  std::vector<std::shared_ptr<Transfer>> to_call_back_;  // done
  std::condition_variable changed_;                      // a transfer is done, or nobody drives
  std::condition_variable work_;                         // there is something to do again
  bool driving_ = false;
  std::size_t num_in_flight_ = 0;
  std::int64_t busy_since_ns_ = 0;
  LaneStats stats_;

  // Touched by the thread that drives only, with or without the lock.
  std::deque<Chunk> in_flight_;
  StagingRing ring_;
};

}  // namespace gpk::runtime
