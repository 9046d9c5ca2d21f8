#include "core/event.h"

#include "base/error.h"
#include "base/text.h"
#include "core/check.h"
#include "core/context.h"
#include "core/graph.h"
#include "core/stream.h"

namespace gpk::inline core {

Event::Event(Device device, Context* context, cu::Event handle, bool timing)
    : device_(device), context_(context), handle_(handle), timing_(timing) {}

std::shared_ptr<Event> Event::create(Device device, Options options) {
  if (!device.is_cuda())
    return std::shared_ptr<Event>(new Event(device, nullptr, nullptr, options.timing));
  Context& context = Context::get(device.index);
  context.make_current();
  unsigned flags = 0;
  if (!options.timing) flags |= cu::kEventDisableTiming;
  if (options.blocking_sync) flags |= cu::kEventBlockingSync;
  cu::Event handle = nullptr;
  GPK_CU_CHECK(cuEventCreate, &handle, flags);
  return std::shared_ptr<Event>(new Event(device, &context, handle, options.timing));
}

Event::~Event() {
  if (handle_ == nullptr) return;
  try {
    context_->make_current();
    driver().cuEventDestroy(handle_);
  } catch (...) {  // the device is lost, and its events with it
  }
}

void Event::record(Stream& stream) {
  if (!(stream.device() == device_))
    throw InvalidArgument(cat("event: it belongs to ", to_string(device_), ", the stream to ",
                              to_string(stream.device())));
  if (context_ != nullptr) {
    context_->make_current();
    GPK_CU_CHECK(cuEventRecord, handle_, stream.handle());
  }
  host_time_ = std::chrono::steady_clock::now();
  recorded_ = true;
}

void Event::synchronize() {
  forbid_in_capture("CudaEvent.synchronize", "the work is only being recorded");
  if (context_ == nullptr) return;
  context_->make_current();
  GPK_CU_CHECK(cuEventSynchronize, handle_);
  context_->check_report(nullptr);
}

bool Event::query() {
  forbid_in_capture("CudaEvent.query", "the work is only being recorded");
  if (context_ == nullptr) return true;
  context_->make_current();
  const cu::Result result = driver().cuEventQuery(handle_);
  if (result == cu::kNotReady) return false;
  check_cuda(result, "cuEventQuery");
  return true;
}

double Event::elapsed_ms(const Event& start, const Event& stop) {
  if (!start.recorded_ || !stop.recorded_)
    throw Error("event_elapsed_ms: both events must have been recorded");
  if (!start.timing_ || !stop.timing_)
    throw Error("event_elapsed_ms: an event was created without timing");
  if (!(start.device_ == stop.device_))
    throw InvalidArgument(cat("event_elapsed_ms: start is on ", to_string(start.device_),
                              ", stop on ", to_string(stop.device_)));
  if (start.context_ == nullptr)
    return std::chrono::duration<double, std::milli>(stop.host_time_ - start.host_time_).count();
  start.context_->make_current();
  float ms = 0.0f;
  const cu::Result result = driver().cuEventElapsedTime(&ms, start.handle_, stop.handle_);
  if (result == cu::kNotReady)
    throw Error("event_elapsed_ms: the work before the events is not finished; synchronize first");
  check_cuda(result, "cuEventElapsedTime");
  return static_cast<double>(ms);
}

}  // namespace gpk::inline core
