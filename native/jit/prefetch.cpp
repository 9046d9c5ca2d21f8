#include "jit/prefetch.h"

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/per_process.h"
#include "base/text.h"
#include "core/config.h"
#include "core/log.h"
#include "jit/disk_cache.h"

namespace gpk::jit {
namespace {

// Half of the cores; with fewer than four, none.
constexpr unsigned kMinCores = 4;
constexpr std::uint64_t kMaxThreads = 8;
constexpr std::uint64_t kMostAskedFor = 64;

std::size_t max_threads() {
  if (const auto asked = Config::get().prefetch)
    return static_cast<std::size_t>(std::min(*asked, kMostAskedFor));
  const unsigned cores = std::thread::hardware_concurrency();
  return cores < kMinCores
             ? 0
             : static_cast<std::size_t>(std::min<std::uint64_t>(cores / 2, kMaxThreads));
}

void lower_priority() noexcept {
#ifdef __linux__
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 10);  // this thread only
#endif
}

// Threads start with work and exit when there is none: an idle process has no threads.
class Queue {
 public:
  using Job = std::function<void()>;

  void add(std::vector<Job> jobs) {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (num_running_ == 0) join_finished();
    for (Job& job : jobs) jobs_.push_back(std::move(job));
    try {
      for (; num_running_ < std::min(max_threads(), jobs_.size()); ++num_running_)
        threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {  // no more threads: make do with those running
    }
    if (num_running_ == 0) jobs_.clear();
  }

  void stop() noexcept {
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      jobs_.clear();
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }

  void finish() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return num_running_ == 0; });
    join_finished();
  }

 private:
  // With the lock held and no thread running: those left have released it for good.
  void join_finished() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void run() {
    lower_priority();
    std::unique_lock lock(mutex_);
    while (!jobs_.empty()) {
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      try {
        job();
      } catch (const std::exception& error) {  // the first use will report it
        log_message(LogLevel::kDebug, cat("prefetch: ", error.what()));
      }
      lock.lock();
    }
    --num_running_;
    idle_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<Job> jobs_;
  std::vector<std::thread> threads_;  // some may have finished
  std::size_t num_running_ = 0;
  bool stopping_ = false;
};

Queue& queue() { return per_process<Queue>(); }

}  // namespace

void prefetch(Context& context, std::function<std::vector<KernelSpec>()> list) {
  if (max_threads() == 0 || disk_cache() == nullptr) return;
  queue().add({[&context, list = std::move(list)] {
    std::vector<Queue::Job> jobs;
    for (KernelSpec& spec : list())
      jobs.push_back([&context, spec = std::move(spec)] { prepare_builtin(context, spec); });
    queue().add(std::move(jobs));
  }});
}

void stop_prefetch() noexcept { queue().stop(); }

void finish_prefetch() { queue().finish(); }

}  // namespace gpk::jit
