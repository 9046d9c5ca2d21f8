#include "runtime/transfer/transfer_engine.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/round_up.h"

namespace gpk::runtime {
namespace {

// A staged transfer is cut into a few chunks at least, so that filling one overlaps with copying
// the one before; below the smallest size the fixed cost of a copy is larger than what that wins.
constexpr std::size_t kMinPipelineChunks = 8;
constexpr std::size_t kSmallestPipelineChunk = std::size_t{256} << 10;

void check(const TransferEngine::Options& options) {
  if (options.chunk_bytes < 256)
    throw Error(Error::Kind::kValue, "TransferEngine: chunk_bytes must be at least 256, got " +
                                         std::to_string(options.chunk_bytes));
  if (options.max_in_flight_bytes < options.chunk_bytes)
    throw Error(Error::Kind::kValue, "TransferEngine: max_in_flight_bytes must hold a chunk of " +
                                         std::to_string(options.chunk_bytes) + " bytes, got " +
                                         std::to_string(options.max_in_flight_bytes));
}

[[noreturn]] void throw_outcome(const Transfer& transfer) {
  if (transfer.error) std::rethrow_exception(transfer.error);
  throw Error(Error::Kind::kState,
              "TransferEngine: transfer " + std::to_string(transfer.id) + " was cancelled");
}

}  // namespace

bool TransferFuture::poll() {
  if (!done()) engine_->pump();
  return done();
}

void TransferFuture::wait() {
  if (!done()) engine_->wait(transfer_);
  if (transfer_->result.state != TransferState::kCompleted) throw_outcome(*transfer_);
}

bool TransferFuture::cancel() { return done() ? transfer_->cancelled : engine_->cancel(transfer_); }

TransferOp TransferFuture::result() const {
  if (!done())
    throw Error(Error::Kind::kState,
                "TransferFuture: transfer " + std::to_string(id()) + " is not done");
  return transfer_->result;
}

TransferEngine::TransferEngine(CopyDevice& device, const Clock& clock, Options options)
    : device_(device), options_(options), clock_(clock), copier_(options.num_copy_threads) {
  check(options);
  for (const TransferType type : {TransferType::kH2D, TransferType::kD2H, TransferType::kD2D})
    lanes_[static_cast<std::size_t>(type)] = std::make_unique<TransferLane>(
        type, device, clock, copier_, options.bandwidth,
        TransferLane::Limits{options.chunk_bytes, options.max_in_flight_bytes});
}

TransferEngine::~TransferEngine() { stop(); }

void TransferEngine::stop() noexcept {
  std::array<std::thread, kNumTransferTypes> threads;
  std::unique_lock lock(mutex_);
  stopping_ = true;
  for (const auto& lane : lanes_) {
    lane->cancel_all();
    lane->wake();
  }
  threads.swap(threads_);
  lock.unlock();
  for (std::thread& thread : threads)
    if (thread.joinable()) thread.join();
  lock.lock();
  for (const auto& lane : lanes_) {
    lane->drive(lock, [&] { return lane->empty(); });
    lane->run_callbacks(lock);
  }
}

std::shared_ptr<Transfer> TransferEngine::make_transfer(TransferType type, std::uint64_t dst,
                                                        std::uint64_t src, std::size_t bytes,
                                                        SubmitOptions& options) {
  if (bytes > 0 && (dst == 0 || src == 0))
    throw Error(Error::Kind::kValue, std::string("TransferEngine: ") + to_string(type) + " of " +
                                         std::to_string(bytes) + " bytes has no " +
                                         (dst == 0 ? "destination" : "source") + " (address 0)");
  if (options.member &&
      (options_.bandwidth == nullptr || !options_.bandwidth->contains(*options.member)))
    throw Error(Error::Kind::kValue,
                "TransferEngine: no bandwidth share for member " + std::to_string(*options.member));
  auto transfer = std::make_shared<Transfer>();
  transfer->type = type;
  transfer->dst = dst;
  transfer->src = src;
  transfer->bytes = bytes;
  transfer->priority = options.priority;
  transfer->after = options.after;
  transfer->on_done = std::move(options.on_done);
  transfer->member = options.member;
  if (bytes > 0 && type != TransferType::kD2D) {
    const std::uint64_t host = type == TransferType::kH2D ? src : dst;
    transfer->staged = !device_.is_pinned(reinterpret_cast<const void*>(host), bytes);
  }
  transfer->chunk_bytes = chunk_bytes_for(*transfer);
  return transfer;
}

std::size_t TransferEngine::chunk_bytes_for(const Transfer& transfer) const {
  if (!transfer.staged) return options_.chunk_bytes;
  const std::size_t smallest = std::min(kSmallestPipelineChunk, options_.chunk_bytes);
  const std::size_t even = round_up(transfer.bytes / kMinPipelineChunks, 4096);
  return std::clamp(even, smallest, options_.chunk_bytes);
}

// With the lock held.
void TransferEngine::enqueue(const std::shared_ptr<Transfer>& transfer) {
  transfer->id = next_id_++;
  TransferOp& op = transfer->result;
  op.id = transfer->id;
  op.type = transfer->type;
  op.src = transfer->src;
  op.dst = transfer->dst;
  op.size_bytes = transfer->bytes;
  op.priority = transfer->priority;
  op.queued_ns = clock_.now_ns();
  lane(transfer->type).add(transfer);
}

TransferFuture TransferEngine::submit(TransferType type, std::uint64_t dst, std::uint64_t src,
                                      std::size_t bytes, SubmitOptions options) {
  try {
    auto transfer = make_transfer(type, dst, src, bytes, options);
    const std::lock_guard lock(mutex_);
    if (options_.background && !stopping_) start_background(type);
    enqueue(transfer);
    if (options_.background) lane(type).wake();
    return {this, std::move(transfer)};
  } catch (...) {
    if (options.after != 0) device_.release(options.after);
    throw;
  }
}

void TransferEngine::start_background(TransferType type) {
  std::thread& thread = threads_[static_cast<std::size_t>(type)];
  if (thread.joinable()) return;
  thread = std::thread([this, type] {
    std::unique_lock lock(mutex_);
    lane(type).drive(lock, [this] { return stopping_; });
  });
}

void TransferEngine::copy_h2d(std::uint64_t dst, const void* src, std::size_t bytes, int priority) {
  copy_and_wait(TransferType::kH2D, dst, reinterpret_cast<std::uint64_t>(src), bytes, priority);
}

void TransferEngine::copy_d2h(void* dst, std::uint64_t src, std::size_t bytes, int priority) {
  copy_and_wait(TransferType::kD2H, reinterpret_cast<std::uint64_t>(dst), src, bytes, priority);
}

void TransferEngine::copy_and_wait(TransferType type, std::uint64_t dst, std::uint64_t src,
                                   std::size_t bytes, int priority) {
  if (bytes == 0) return;
  SubmitOptions options;
  options.priority = priority;
  const auto transfer = make_transfer(type, dst, src, bytes, options);
  {
    std::unique_lock lock(mutex_);
    enqueue(transfer);
    lane(type).drive(lock, [&] { return transfer->done.load(); });
  }
  if (transfer->result.state != TransferState::kCompleted) throw_outcome(*transfer);
}

void TransferEngine::wait(const std::shared_ptr<Transfer>& transfer) {
  std::unique_lock lock(mutex_);
  lane(transfer->type).drive(lock, [&] { return transfer->done.load(); });
}

bool TransferEngine::cancel(const std::shared_ptr<Transfer>& transfer) {
  std::unique_lock lock(mutex_);
  TransferLane& of = lane(transfer->type);
  const bool cancelled = of.cancel(transfer);
  of.run_callbacks(lock);
  return cancelled;
}

bool TransferEngine::pump() {
  std::unique_lock lock(mutex_);
  bool moved = false;
  for (const auto& lane : lanes_) moved = lane->pump(lock) || moved;
  return moved;
}

void TransferEngine::drain() {
  std::unique_lock lock(mutex_);
  for (const auto& lane : lanes_) lane->drive(lock, [&] { return lane->empty(); });
}

TransferEngine::Stats TransferEngine::stats() const {
  const std::lock_guard lock(mutex_);
  Stats result;
  for (std::size_t i = 0; i < lanes_.size(); ++i) result.by_type[i] = lanes_[i]->stats();
  return result;
}

}  // namespace gpk::runtime
