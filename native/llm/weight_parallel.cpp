#include "llm/weight_parallel.h"

#include <algorithm>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"
#include "core/context.h"
#include "core/interrupt.h"

namespace gpk::llm {
namespace {

// Reading from the page cache is a memcpy: several cores to match the link.
constexpr unsigned kMaxThreads = 12;
constexpr std::size_t kMaxFlights = 2;  // of one thread: it reads one window while one is copied

std::size_t num_windows(const std::vector<WeightBlock>& plan) {
  std::size_t count = 0;
  for (const WeightBlock& block : plan) count += ceil_div(block.raw_bytes, kStagingSlotBytes);
  return count;
}

unsigned count_threads(unsigned wanted, std::size_t windows) {
  const unsigned most =
      wanted != 0 ? wanted : std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads);
  return static_cast<unsigned>(
      std::min({std::size_t{most}, windows, kMaxStagingSlots / kMaxFlights}));
}

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

ParallelLoad::ParallelLoad(Device device, const std::vector<WeightBlock>& plan,
                           unsigned num_threads, std::function<void(std::uint64_t)> advance)
    : device_(device),
      stream_(current_stream(device)),
      transfers_(device::transfers(device)),
      advance_(std::move(advance)) {
  const std::size_t windows = num_windows(plan);
  if (windows == 0) return;
  const unsigned wanted = count_threads(num_threads, windows);
  slots_ = WeightStaging::of(device).take(std::min(windows, kMaxFlights * wanted));
  try {
    allocate_staging(plan);
    free_slots_.resize(slots_.size());
    std::iota(free_slots_.rbegin(), free_slots_.rend(), std::size_t{0});
    while (threads_.size() < wanted) threads_.emplace_back([this] { run_reader(); });
  } catch (const std::system_error&) {  // the threads that did start do the work
    if (threads_.empty()) {
      stop();
      throw;
    }
  } catch (...) {
    stop();
    throw;
  }
}

ParallelLoad::~ParallelLoad() { stop(); }

// Less where memory is short: one window is enough.
void ParallelLoad::allocate_staging(const std::vector<WeightBlock>& plan) {
  if (std::none_of(plan.begin(), plan.end(), [](const WeightBlock& b) { return b.converts; }))
    return;
  while (!device_staging_) {
    try {
      device_staging_ = Array::empty({static_cast<std::int64_t>(slots_.size() * kStagingSlotBytes)},
                                     DType::kUInt8, device_, "load");
    } catch (const OutOfMemory&) {
      if (slots_.size() == 1) throw;
      std::vector<StagingSlot> rest(slots_.begin() + static_cast<std::ptrdiff_t>(slots_.size() / 2),
                                    slots_.end());
      slots_.resize(slots_.size() - rest.size());
      WeightStaging::of(device_).give_back(std::move(rest));
    }
  }
  pins_.push_back(std::make_unique<BufferPin>(device_staging_->buffer()));
}

void ParallelLoad::add(const WeightBlock& block, const Array& memory) {
  pins_.push_back(std::make_unique<BufferPin>(memory.buffer()));
  const std::lock_guard lock(mutex_);
  for (std::size_t begin = 0; begin < block.raw_bytes; begin += kStagingSlotBytes)
    windows_.push_back(
        {&block, memory, begin, std::min(begin + kStagingSlotBytes, block.raw_bytes)});
  work_.notify_all();
}

void ParallelLoad::drain() {
  std::unique_lock lock(mutex_);
  while (true) {
    wait_interruptibly(changed_, lock, [this] {
      return error_ || read_bytes_ > 0 || (windows_.empty() && num_running_ == 0);
    });
    if (error_) std::rethrow_exception(error_);
    const std::uint64_t bytes = std::exchange(read_bytes_, 0);
    if (bytes == 0) break;
    lock.unlock();
    advance_(bytes);
    lock.lock();
  }
  lock.unlock();
  const std::size_t kept = device_staging_ ? 1 : 0;  // the staging is needed until the end
  pins_.resize(std::min(pins_.size(), kept));
}

void ParallelLoad::finish() {
  drain();
  stop();
  if (device_staging_) stream_->synchronize();
}

void ParallelLoad::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    windows_.clear();
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  if (!slots_.empty()) WeightStaging::of(device_).give_back(std::exchange(slots_, {}));
  pins_.clear();
}

void ParallelLoad::fail(std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  closed_ = true;
  windows_.clear();
  work_.notify_all();
  changed_.notify_all();
}

void ParallelLoad::run_reader() {
  std::deque<Flight> flights;
  try {
    Context::get(device_.index).make_current();
    const StreamScope scope(stream_);
    while (true) {
      if (flights.size() < kMaxFlights) {
        if (auto flight = next_flight(flights.empty())) {
          flights.push_back(*std::move(flight));
          continue;
        }
        if (flights.empty()) return;
      }
      Flight oldest = std::move(flights.front());
      flights.pop_front();
      retire(std::move(oldest));
    }
  } catch (...) {
    fail(std::current_exception());
  }
  for (Flight& flight : flights) {  // the slots' memory is in use until then
    try {
      flight.future.wait();
    } catch (...) {
    }
  }
}

std::optional<ParallelLoad::Flight> ParallelLoad::next_flight(bool idle) {
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return !windows_.empty() && !free_slots_.empty(); };
  if (idle) work_.wait(lock, [&] { return closed_ || ready(); });
  if (!ready()) return std::nullopt;
  Window window = std::move(windows_.front());
  windows_.pop_front();
  const std::size_t slot = free_slots_.back();
  free_slots_.pop_back();
  ++num_running_;
  lock.unlock();
  return start(std::move(window), slot);
}

ParallelLoad::Flight ParallelLoad::start(Window window, std::size_t slot) {
  std::shared_ptr<PinnedMemory>& pinned = slots_[slot].memory;
  if (!pinned) pinned = PinnedMemory::allocate(device_, kStagingSlotBytes);
  auto* data = static_cast<std::byte*>(pinned->data());
  for (const WeightRead& read : plan_reads(*window.block, window.begin, window.end))
    read.file->read(read.file_offset, data + read.offset, read.bytes);
  const std::uint64_t dst = window.block->converts
                                ? device_staging_->device_ptr() + slot * kStagingSlotBytes
                                : window.memory.device_ptr() + window.begin;
  auto future = transfers_->submit(runtime::TransferType::kH2D, dst, address_of(data),
                                   window.end - window.begin, stream_);
  return {std::move(window), slot, std::move(future)};
}

void ParallelLoad::retire(Flight flight) {
  flight.future.wait();
  const Window& window = flight.window;
  // The next copy into the same staging starts after this conversion: it is ordered by the stream.
  if (window.block->converts)
    convert_window(*window.block, window.memory, *device_staging_, flight.slot * kStagingSlotBytes,
                   window.begin, window.end);
  const std::lock_guard lock(mutex_);
  free_slots_.push_back(flight.slot);
  --num_running_;
  read_bytes_ += window.end - window.begin;
  work_.notify_one();
  changed_.notify_one();
}

}  // namespace gpk::llm
