#include "core/event_cache.h"

#include <chrono>
#include <thread>

#include "core/context.h"
#include "core/interrupt.h"
#include "core/memory.h"

namespace gpk::inline core {
namespace {

constexpr auto kSpin = std::chrono::microseconds(30);
constexpr auto kNap = std::chrono::microseconds(20);

cu::Event handle_of(EventCache::EventId event) { return reinterpret_cast<cu::Event>(event); }

}  // namespace

EventCache::~EventCache() {
  try {
    context_.make_current();
    for (const cu::Event event : free_) driver().cuEventDestroy(event);
  } catch (...) {  // the device is lost, and its events with it
  }
}

EventCache::EventId EventCache::record(cu::Stream stream) {
  context_.make_current();
  cu::Event event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      event = free_.back();
      free_.pop_back();
    }
  }
  if (event == nullptr) {
    const RelaxedCaptureScope relaxed;
    GPK_CU_CHECK(cuEventCreate, &event,
                 cu::kEventBlockingSync | (timing_ ? 0u : cu::kEventDisableTiming));
  }
  const auto id = reinterpret_cast<EventId>(event);
  if (const cu::Result result = driver().cuEventRecord(event, stream); result != cu::kSuccess) {
    release(id);
    check_cuda(result, "cuEventRecord");
  }
  return id;
}

bool EventCache::poll(EventId event) {
  context_.make_current();
  const cu::Result result = driver().cuEventQuery(handle_of(event));
  if (result == cu::kNotReady) return false;
  check_cuda(result, "cuEventQuery");
  return true;
}

bool EventCache::spin(EventId event) {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  do {
    if (poll(event)) return true;
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

void EventCache::wait(EventId event) {
  if (!spin(event)) GPK_CU_CHECK(cuEventSynchronize, handle_of(event));
}

void EventCache::wait_interruptibly(EventId event) {
  if (spin(event)) return;
  do {
    check_interrupt();
    std::this_thread::sleep_for(kNap);
  } while (!poll(event));
}

void EventCache::release(EventId event) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    free_.push_back(handle_of(event));
  } catch (...) {  // no host memory for the list: leak the event to the driver
  }
}

double EventCache::elapsed_ns(EventId start, EventId stop) {
  context_.make_current();
  float ms = 0.0f;
  GPK_CU_CHECK(cuEventElapsedTime, &ms, handle_of(start), handle_of(stop));
  return static_cast<double>(ms) * 1e6;
}

}  // namespace gpk::inline core
