#include "runtime/sharing/window.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/error.h"

namespace gpk::runtime {

InFlightWindow::InFlightWindow(StreamEvents& events, const ForegroundActivity& foreground,
                               const Clock& clock, Options options)
    : events_(events),
      foreground_(foreground),
      clock_(clock),
      options_(options),
      max_in_flight_(options.max_in_flight) {
  if (options.min_in_flight == 0 || options.min_in_flight > options.max_in_flight ||
      options.quiet_ns < 0)
    throw Error(
        Error::Kind::kValue,
        "InFlightWindow: needs 1 <= min_in_flight <= max_in_flight and quiet_ns >= 0, got " +
            std::to_string(options.min_in_flight) + ", " + std::to_string(options.max_in_flight) +
            " and " + std::to_string(options.quiet_ns));
}

InFlightWindow::~InFlightWindow() {
  for (const DeviceEvents::EventId event : launched_) events_.release(event);
}

std::size_t InFlightWindow::limit() const {
  return foreground_.active(clock_.now_ns(), options_.quiet_ns)
             ? options_.min_in_flight
             : max_in_flight_.load(std::memory_order_relaxed);
}

void InFlightWindow::set_max_in_flight(std::size_t max_in_flight) noexcept {
  max_in_flight_.store(std::clamp(max_in_flight, options_.min_in_flight, options_.max_in_flight),
                       std::memory_order_relaxed);
}

InFlightWindow::Slot InFlightWindow::acquire() {
  Lock lock(mutex_);
  std::int64_t wait_start_ns = -1;
  while (true) {
    // Polling costs a driver call: do it only when the result matters.
    if (num_in_flight_ >= limit()) retire_done();
    if (num_in_flight_ < limit()) break;
    if (wait_start_ns < 0) {
      wait_start_ns = clock_.now_ns();
      ++stats_.num_waits;
    }
    wait_for_oldest(lock);
  }
  if (wait_start_ns >= 0) {
    const std::int64_t wait_ns = clock_.now_ns() - wait_start_ns;
    stats_.wait_ns += wait_ns;
    stats_.max_wait_ns = std::max(stats_.max_wait_ns, wait_ns);
  }
  ++num_in_flight_;
  stats_.max_in_flight = std::max(stats_.max_in_flight, num_in_flight_);
  return Slot(*this);
}

void InFlightWindow::retire_done() {
  while (!launched_.empty()) {
    const DeviceEvents::EventId event = launched_.front();
    std::exception_ptr error;
    try {
      if (!events_.poll(event)) return;
    } catch (...) {
      error = std::current_exception();
    }
    launched_.pop_front();
    events_.release(event);
    --num_in_flight_;
    left_.notify_all();
    if (error) std::rethrow_exception(error);
  }
}

// The waiting thread owns the event; the launch still counts as in flight.
void InFlightWindow::wait_for_oldest(Lock& lock) {
  if (launched_.empty()) {  // others hold all slots, or wait for all events
    left_.wait(lock);
    return;
  }
  const DeviceEvents::EventId event = launched_.front();
  launched_.pop_front();
  std::exception_ptr error;
  lock.unlock();
  try {
    events_.wait(event);
  } catch (...) {
    error = std::current_exception();
  }
  events_.release(event);
  lock.lock();
  --num_in_flight_;
  left_.notify_all();
  if (error) std::rethrow_exception(error);
}

void InFlightWindow::Slot::launched() {
  InFlightWindow& window = *window_;
  // Under the lock, so that events are in stream order.
  const Lock lock(window.mutex_);
  window.launched_.push_back(0);
  try {
    window.launched_.back() = window.events_.record();
  } catch (...) {
    window.launched_.pop_back();
    throw;
  }
  ++window.stats_.num_launches;
  if (window.limit() < window.options_.max_in_flight) ++window.stats_.num_shrunk;
  window.left_.notify_all();  // there is an event to wait for
  window_ = nullptr;
}

void InFlightWindow::give_back() {
  const std::lock_guard lock(mutex_);
  --num_in_flight_;
  left_.notify_all();
}

void InFlightWindow::drain() {
  Lock lock(mutex_);
  std::exception_ptr error;
  while (num_in_flight_ > 0) {
    try {
      wait_for_oldest(lock);
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

std::uint64_t InFlightWindow::num_waits() const {
  const std::lock_guard lock(mutex_);
  return stats_.num_waits;
}

InFlightWindow::Stats InFlightWindow::stats() const {
  const std::lock_guard lock(mutex_);
  Stats now = stats_;
  now.limit = limit();
  now.num_in_flight = num_in_flight_;
  for (const DeviceEvents::EventId event : launched_) {
    try {
      if (!events_.poll(event)) break;
    } catch (...) {  // finished; the next launch or drain() rethrows it
    }
    --now.num_in_flight;
  }
  return now;
}

}  // namespace gpk::runtime
