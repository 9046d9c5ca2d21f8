#include "jit/prefetch.h"

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "core/config.h"
#include "core/log.h"
#include "core/per_process.h"
#include "core/text.h"
#include "jit/disk_cache.h"

namespace gpk::jit {
namespace {

// Fewer cores than this are left to the program.
constexpr unsigned kMinCores = 4;
constexpr unsigned kMaxThreads = 8;

void lower_priority() noexcept {
#ifdef __linux__
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 10);  // of this thread alone
#endif
}

// Threads come with work and leave when there is none: an idle process has none of them.
class Queue {
 public:
  using Job = std::function<void()>;

  void add(std::vector<Job> jobs) {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    for (Job& job : jobs) jobs_.push_back(std::move(job));
    for (; num_running_ < std::min(max_threads(), jobs_.size()); ++num_running_)
      threads_.emplace_back([this] { run(); });
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
  }

 private:
  static std::size_t max_threads() {
    return std::clamp(std::thread::hardware_concurrency() / 2, 1U, kMaxThreads);
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
      } catch (const std::exception& error) {  // the first use will say so
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
  std::vector<std::thread> threads_;  // some of them done
  std::size_t num_running_ = 0;
  bool stopping_ = false;
};

Queue& queue() { return per_process<Queue>(); }

bool enabled() {
  return Config::get().prefetch && disk_cache() != nullptr &&
         std::thread::hardware_concurrency() >= kMinCores;
}

}  // namespace

void prefetch(Context& context, std::function<std::vector<KernelSpec>()> list) {
  if (!enabled()) return;
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
