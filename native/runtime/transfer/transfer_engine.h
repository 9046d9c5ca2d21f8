// Copies between host and device in the background: by priority, in chunks, through pinned memory
// where the host's is pageable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "runtime/sharing/pacing_share.h"
#include "runtime/transfer/staging_copier.h"
#include "runtime/transfer/transfer.h"
#include "runtime/transfer/transfer_device.h"
#include "runtime/transfer/transfer_lane.h"

namespace gpk::runtime {

class TransferEngine;

// The outcome of one transfer. Copies share it. A future may outlive the engine: by then its
// transfer is done.
class TransferFuture {
 public:
  TransferFuture(TransferEngine* engine, std::shared_ptr<Transfer> transfer)
      : engine_(engine), transfer_(std::move(transfer)) {}

  [[nodiscard]] TransferId id() const noexcept { return transfer_->id; }
  [[nodiscard]] bool done() const noexcept { return transfer_->done; }
  // Moves transfers on without blocking; true when this one is done.
  bool poll();
  // Returns when the transfer is done. The calling thread helps. Throws what the transfer failed
  // with; kState when it was cancelled.
  void wait();
  // Stops it between chunks. True when it will not complete; the destination may then be written
  // in part. False when the last chunk has been started.
  bool cancel();
  // Times, state and error text; kState while not done.
  [[nodiscard]] TransferOp result() const;

 private:
  TransferEngine* engine_;
  std::shared_ptr<Transfer> transfer_;
};

// Thread safe. A direction's chunks start by priority (higher first), then in the order they were
// submitted, with a bounded number of bytes in flight: an urgent copy waits for those bytes, not
// for the rest of a large transfer.
class TransferEngine {
 public:
  struct Options {
    std::size_t chunk_bytes = std::size_t{8} << 20;
    std::size_t max_in_flight_bytes = std::size_t{24} << 20;  // per direction
    unsigned num_copy_threads = HostCopier::default_num_threads();
    // Threads of the engine move submitted transfers on. Without them, transfers move only in
    // wait(), poll(), pump(), drain() and the blocking copies.
    bool background = true;
    SharePacer* bandwidth = nullptr;  // shares of bytes for SubmitOptions::member
  };

  struct SubmitOptions {
    int priority = 0;
    // An event of the device that the transfer starts after; the engine releases it.
    DeviceEvents::EventId after = 0;
    // Called once when the transfer is done, by some thread, without any lock held; it may use the
    // engine. What it throws is dropped. Short: transfers that nobody waits for stand still
    // meanwhile.
    std::function<void(const TransferOp&)> on_done;
    std::optional<SharePacer::MemberId> member;  // whose bandwidth share it uses
  };

  struct Stats {
    std::array<LaneStats, kNumTransferTypes> by_type;  // indexed by TransferType
    [[nodiscard]] const LaneStats& of(TransferType type) const {
      return by_type[static_cast<std::size_t>(type)];
    }
  };

  // `device`, `clock` and the pacer outlive the engine. kValue when chunk_bytes < 256, the bytes in
  // flight are less than a chunk, or there are no copy threads.
  TransferEngine(CopyDevice& device, const Clock& clock, Options options);
  TransferEngine(CopyDevice& device, const Clock& clock)
      : TransferEngine(device, clock, Options{}) {}
  ~TransferEngine();  // stops it
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  // Memory on both sides stays valid until the future is done. `dst` and `src` are addresses; the
  // host's may be pageable. 0 bytes are a transfer too. kValue for an address 0 with bytes to copy,
  // or an unknown member (the event is released then as well).
  TransferFuture submit(TransferType type, std::uint64_t dst, std::uint64_t src, std::size_t bytes,
                        SubmitOptions options);
  TransferFuture submit(TransferType type, std::uint64_t dst, std::uint64_t src,
                        std::size_t bytes) {
    return submit(type, dst, src, bytes, SubmitOptions{});
  }

  // Cancels what has not started, waits for what is in flight and ends the threads. Others may be
  // using it: what they submit from then on moves as without background.
  void stop() noexcept;

  // Copies and waits, on the calling thread. Throw what the copy failed with.
  void copy_h2d(std::uint64_t dst, const void* src, std::size_t bytes, int priority = 0);
  void copy_d2h(void* dst, std::uint64_t src, std::size_t bytes, int priority = 0);

  bool pump();   // one pass over all directions without blocking; true when something moved
  void drain();  // waits until nothing is left
  [[nodiscard]] Stats stats() const;
  [[nodiscard]] const Options& options() const noexcept { return options_; }

 private:
  friend class TransferFuture;

  TransferLane& lane(TransferType type) { return *lanes_[static_cast<std::size_t>(type)]; }
  std::shared_ptr<Transfer> make_transfer(TransferType type, std::uint64_t dst, std::uint64_t src,
                                          std::size_t bytes, SubmitOptions& options);
  [[nodiscard]] std::size_t chunk_bytes_for(const Transfer& transfer) const;
  void enqueue(const std::shared_ptr<Transfer>& transfer);
  void start_background(TransferType type);
  void copy_and_wait(TransferType type, std::uint64_t dst, std::uint64_t src, std::size_t bytes,
                     int priority);
  void wait(const std::shared_ptr<Transfer>& transfer);
  bool cancel(const std::shared_ptr<Transfer>& transfer);

  CopyDevice& device_;
  const Options options_;
  const Clock& clock_;
  HostCopier copier_;
  mutable std::mutex mutex_;
  TransferId next_id_ = 1;
  bool stopping_ = false;
  std::array<std::unique_ptr<TransferLane>, kNumTransferTypes> lanes_;
  std::array<std::thread, kNumTransferTypes> threads_;
};

}  // namespace gpk::runtime
