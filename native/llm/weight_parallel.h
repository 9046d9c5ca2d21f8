// Blocks of weights to a GPU by several threads: each reads a window of a block into a pinned
// buffer, submits the copy, and converts what has arrived.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/array.h"
#include "core/stream.h"
#include "device/transfers.h"
#include "llm/weight_plan.h"
#include "llm/weight_staging.h"

namespace gpk::llm {

// Converts bytes [begin, end) of the block as read, which are at `staging_offset` of `staging`, on
// the current stream.
void convert_window(const WeightBlock& block, const Array& memory, const Array& staging,
                    std::size_t staging_offset, std::size_t begin, std::size_t end);

// One load. Its methods belong to one thread; work is ordered after what that thread's current
// stream has been given so far. Destroyed before finish(), it stops: blocks are then undefined.
class ParallelLoad {
 public:
  // `advance` is called by drain() and finish() with the bytes read since the last call.
  ParallelLoad(Device device, const std::vector<WeightBlock>& plan, unsigned num_threads,
               std::function<void(std::uint64_t)> advance);
  ~ParallelLoad();
  ParallelLoad(const ParallelLoad&) = delete;
  ParallelLoad& operator=(const ParallelLoad&) = delete;

  // The block stays resident until drain() or finish().
  void add(const WeightBlock& block, const Array& memory);
  // Waits until everything added is in its block. Throws what a thread failed with.
  void drain();
  // The same, and ends the threads; all writes are complete.
  void finish();

 private:
  struct Window {
    const WeightBlock* block;
    Array memory;
    std::size_t begin;
    std::size_t end;
  };
  // A copy under way, and the slot it comes from.
  struct Flight {
    Window window;
    std::size_t slot;
    runtime::TransferFuture future;
  };

  void allocate_staging(const std::vector<WeightBlock>& plan);
  void run_reader();
  // The next window and a free slot for it. Nothing: retire a copy of the caller's own, or, where
  // it has none (`idle`), there is no more.
  std::optional<Flight> next_flight(bool idle);
  Flight start(Window window, std::size_t slot);
  void retire(Flight flight);
  void fail(std::exception_ptr error) noexcept;
  void stop() noexcept;

  const Device device_;
  const std::shared_ptr<Stream> stream_;
  const std::shared_ptr<device::Transfers> transfers_;
  const std::function<void(std::uint64_t)> advance_;
  std::vector<StagingSlot> slots_;
  std::optional<Array> device_staging_;  // a window for each slot, where dtypes differ
  std::vector<std::unique_ptr<BufferPin>> pins_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;
  std::condition_variable work_;     // for readers: a window, a slot, or the end
  std::condition_variable changed_;  // for the owner: a window is done, or one failed
  std::deque<Window> windows_;
  std::vector<std::size_t> free_slots_;
  std::size_t num_running_ = 0;
  std::uint64_t read_bytes_ = 0;  // not yet reported
  bool closed_ = false;
  std::exception_ptr error_;
};

}  // namespace gpk::llm
