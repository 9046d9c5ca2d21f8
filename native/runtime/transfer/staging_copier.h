// memcpy by several threads: one core does not reach the speed of the link to the GPU.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace gpk::runtime {

// A few threads that persist; they start with the first large copy and sleep in between. Thread
// safe: copies of several callers share the threads in the order they came.
class HostCopier {
 public:
  // `num_threads` take part in a copy, the caller among them: 1 means plain memcpy. kValue for 0.
  explicit HostCopier(unsigned num_threads);
  ~HostCopier();
  HostCopier(const HostCopier&) = delete;
  HostCopier& operator=(const HostCopier&) = delete;

  // As memcpy: the ranges do not overlap. Returns when all bytes are there.
  void copy(void* dst, const void* src, std::size_t bytes);

  [[nodiscard]] unsigned num_threads() const noexcept { return num_threads_; }
  // Half of the machine's cores, between 1 and 8: beyond that memory is the limit.
  [[nodiscard]] static unsigned default_num_threads() noexcept;

 private:
  // One copy, on its caller's stack; parts are handed out under the lock.
  struct Job {
    std::byte* dst;
    const std::byte* src;
    std::size_t bytes;
    std::size_t part_bytes;
    std::size_t next = 0;  // offset of the first part nobody has taken
    unsigned num_running = 0;
    [[nodiscard]] bool taken() const noexcept { return next >= bytes; }
  };

  void start_threads();
  void run_worker();
  void linger(std::unique_lock<std::mutex>& lock);
  void copy_part(Job& job, std::unique_lock<std::mutex>& lock);

  const unsigned num_threads_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::deque<Job*> jobs_;                   // those with parts left
  std::atomic<std::uint64_t> num_jobs_{0};  // so far
  bool started_ = false;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace gpk::runtime
