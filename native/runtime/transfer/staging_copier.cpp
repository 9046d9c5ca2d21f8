#include "runtime/transfer/staging_copier.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>

#include "base/error.h"

namespace gpk::runtime {
namespace {

// Below this, waking a thread costs more than it copies.
constexpr std::size_t kMinPartBytes = std::size_t{128} << 10;
constexpr std::size_t kPageBytes = 4096;
constexpr auto kLinger = std::chrono::microseconds(60);

}  // namespace

HostCopier::HostCopier(unsigned num_threads) : num_threads_(num_threads) {
  if (num_threads == 0)
    throw Error(Error::Kind::kValue, "HostCopier: num_threads must be at least 1, got 0");
}

HostCopier::~HostCopier() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

unsigned HostCopier::default_num_threads() noexcept {
  return std::clamp(std::thread::hardware_concurrency() / 2, 1u, 8u);
}

void HostCopier::start_threads() {
  started_ = true;
  try {
    while (threads_.size() + 1 < num_threads_) threads_.emplace_back([this] { run_worker(); });
  } catch (const std::system_error&) {  // the threads that did start do the work
  }
}

void HostCopier::copy(void* dst, const void* src, std::size_t bytes) {
  if (num_threads_ == 1 || bytes < 2 * kMinPartBytes) {
    if (bytes > 0) std::memcpy(dst, src, bytes);
    return;
  }
  // Two parts for each thread: one that wakes up late leaves its share to the others.
  const std::size_t even = bytes / (std::size_t{2} * num_threads_) + 1;
  const std::size_t part_bytes =
      std::max(kMinPartBytes, (even + kPageBytes - 1) & ~(kPageBytes - 1));
  Job job{static_cast<std::byte*>(dst), static_cast<const std::byte*>(src), bytes, part_bytes};
  std::unique_lock lock(mutex_);
  if (!started_) start_threads();
  jobs_.push_back(&job);
  num_jobs_.fetch_add(1, std::memory_order_relaxed);
  work_.notify_all();
  while (!job.taken()) copy_part(job, lock);
  done_.wait(lock, [&] { return job.num_running == 0; });
}

void HostCopier::copy_part(Job& job, std::unique_lock<std::mutex>& lock) {
  const std::size_t offset = job.next;
  const std::size_t bytes = std::min(job.part_bytes, job.bytes - offset);
  job.next += bytes;
  ++job.num_running;
  if (job.taken()) std::erase(jobs_, &job);
  lock.unlock();
  std::memcpy(job.dst + offset, job.src + offset, bytes);
  lock.lock();
  if (--job.num_running == 0 && job.taken()) done_.notify_all();
}

void HostCopier::run_worker() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    copy_part(*jobs_.front(), lock);
    if (jobs_.empty()) linger(lock);
  }
}

// The next chunk of a transfer follows soon, and waking up takes as long as copying a part of it.
void HostCopier::linger(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t seen = num_jobs_.load(std::memory_order_relaxed);
  lock.unlock();
  const auto until = std::chrono::steady_clock::now() + kLinger;
  while (num_jobs_.load(std::memory_order_relaxed) == seen &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  lock.lock();
}

}  // namespace gpk::runtime
