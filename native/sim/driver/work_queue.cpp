#include "sim/driver/work_queue.h"

#include <algorithm>
#include <thread>

namespace gpk::sim::driver {

void WorkQueue::submit(std::function<void()> work, std::vector<Ticket> after) {
  if (at_once_) {  // so is what it waits for, which is done
    mutex_.unlock();
    if (work) work();
    mutex_.lock();
    completed_ = ++submitted_;
    return;
  }
  std::erase_if(after, [](const Ticket& ticket) { return driver::reached(ticket); });
  if (!work && after.empty() && idle()) {  // needs no thread
    completed_ = ++submitted_;
    return;
  }
  if (!has_thread_) {
    std::thread([self = shared_from_this()] { self->serve(); }).detach();
    has_thread_ = true;
  }
  waiting_.push_back({std::move(work), std::move(after)});
  ++submitted_;
  arrived_.notify_one();
}

void WorkQueue::close() {
  closed_ = true;
  arrived_.notify_one();
}

void WorkQueue::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    arrived_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Work work = std::move(waiting_.front());
    waiting_.pop_front();
    progress_.wait(lock, [&] {
      return std::all_of(work.after.begin(), work.after.end(),
                         [](const Ticket& ticket) { return driver::reached(ticket); });
    });
    if (work.run) {
      lock.unlock();
      work.run();
      work = {};  // what it held may be destroyed without the lock
      lock.lock();
    }
    ++completed_;
    progress_.notify_all();
  }
}

}  // namespace gpk::sim::driver
