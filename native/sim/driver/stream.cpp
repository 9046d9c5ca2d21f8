// Streams and events.
#include <chrono>

#include "sim/driver/machine.h"

namespace gpk::sim::driver {
namespace {

double now_ms() {
  if (machine().seams.now_ms != nullptr) return machine().seams.now_ms();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

// Waiting for or asking a stream or event: never inside a capture, nor, while the calling thread
// captures, outside of it. So an H200 answers.
Result check_wait(const SimStream& stream) {
  if (!stream.capture) return check_unsafe_call();
  stream.capture->invalid = true;
  return kStreamCaptureUnsupported;
}

Result check_wait(const SimEvent& event) {
  if (!event.capture) return check_unsafe_call();
  event.capture->invalid = true;
  return kCapturedEvent;
}

// Waiting for an event of another capture, or from outside of one.
Result join_capture(SimStream& stream, const SimEvent& event) {
  if (stream.capture) {
    if (stream.capture->invalid) return kStreamCaptureInvalidated;
    if (event.capture != stream.capture) {
      stream.capture->invalid = true;
      return kCaptureIsolation;
    }
  } else if (event.capture) {
    if (stream.handle == nullptr) {
      event.capture->invalid = true;
      return kCaptureImplicit;
    }
    stream.capture = event.capture;
  }
  if (event.capture) stream.tail.insert(stream.tail.end(), event.tail.begin(), event.tail.end());
  return kSuccess;
}

Result lost(int device) {
  const SimContext* context = context_of(device);
  return context == nullptr ? kSuccess : context->lost;
}

}  // namespace

SimStream* find_stream(Stream handle) {
  constexpr std::uintptr_t kPerThreadStream = 2;  // 0 and 1: the legacy stream; all one here
  if (reinterpret_cast<std::uintptr_t>(handle) > kPerThreadStream)
    return machine().streams.find(handle);
  SimContext* context = current_context();
  return context == nullptr ? nullptr : &context->legacy;
}

std::shared_ptr<WorkQueue> make_queue() {
  Machine& m = machine();
  return std::make_shared<WorkQueue>(m.mutex, *m.progress, m.seams.at_once);
}

std::shared_ptr<SimStream> make_stream(int device, unsigned flags, int priority) {
  auto made = std::make_shared<SimStream>();
  made->device = device;
  made->flags = flags;
  made->priority = priority;
  made->handle = reinterpret_cast<Stream>(made.get());
  made->queue = make_queue();
  return made;
}

Result cuStreamCreateWithPriority(Stream* stream, unsigned flags, int priority) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  *stream = machine().streams.add(make_stream(current_context()->device, flags, priority));
  return kSuccess;
}

// What it has left to do is done.
Result cuStreamDestroy(Stream stream) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SimStream* found = machine().streams.find(stream);
  if (found == nullptr) return kInvalidHandle;
  if (found->capture) found->capture->invalid = true;
  found->queue->close();
  machine().streams.erase(stream);
  return kSuccess;
}

Result cuStreamSynchronize(Stream stream) {
  Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SimStream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  if (const Result result = check_wait(*found); result != kSuccess) return result;
  const int device = found->device;
  const Ticket tail = found->queue->tail();
  call.wait([&] { return reached(tail); });
  return lost(device);
}

Result cuStreamQuery(Stream stream) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SimStream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  if (const Result result = check_wait(*found); result != kSuccess) return result;
  return found->queue->idle() ? lost(found->device) : kNotReady;
}

Result cuStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  SimStream* found = find_stream(stream);
  const SimEvent* waited = machine().events.find(event);
  if (found == nullptr || waited == nullptr) return kInvalidHandle;
  if (flags != 0) return kInvalidValue;
  if (found->capture || waited->capture) return join_capture(*found, *waited);
  if (waited->time_ms != nullptr) enqueue(*found, nullptr, {waited->ticket});
  return kSuccess;
}

Result cuEventCreate(Event* event, unsigned flags) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  auto made = std::make_shared<SimEvent>();
  made->device = current_context()->device;
  made->flags = flags;
  *event = machine().events.add(std::move(made));
  return kSuccess;
}

Result cuEventDestroy(Event event) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  return machine().events.erase(event) ? kSuccess : kInvalidHandle;
}

Result cuEventRecord(Event event, Stream stream) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  SimStream* found = find_stream(stream);
  SimEvent* recorded = machine().events.find(event);
  if (found == nullptr || recorded == nullptr || found->device != recorded->device)
    return kInvalidHandle;
  if (found->capture && found->capture->invalid) return kStreamCaptureInvalidated;
  recorded->time_ms = std::make_shared<double>(0.0);
  recorded->capture = found->capture;
  recorded->tail = found->tail;
  if (found->capture) return kSuccess;
  const bool timed = (recorded->flags & kEventDisableTiming) == 0;
  // Written before the queue passes this point, under its lock; read after.
  std::function<void()> take_time;
  if (timed) take_time = [time_ms = recorded->time_ms] { *time_ms = now_ms(); };
  recorded->ticket = enqueue(*found, std::move(take_time));
  return kSuccess;
}

Result cuEventQuery(Event event) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SimEvent* found = machine().events.find(event);
  if (found == nullptr) return kInvalidHandle;
  if (const Result result = check_wait(*found); result != kSuccess) return result;
  return reached(found->ticket) ? lost(found->device) : kNotReady;
}

Result cuEventSynchronize(Event event) {
  Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SimEvent* found = machine().events.find(event);
  if (found == nullptr) return kInvalidHandle;
  if (const Result result = check_wait(*found); result != kSuccess) return result;
  const int device = found->device;
  const Ticket ticket = found->ticket;
  call.wait([&] { return reached(ticket); });
  return lost(device);
}

Result cuEventElapsedTime(float* ms, Event start, Event stop) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SimEvent* a = machine().events.find(start);
  const SimEvent* b = machine().events.find(stop);
  if (a == nullptr || b == nullptr || a->device != b->device) return kInvalidHandle;
  if (!a->time_ms || !b->time_ms || a->capture || b->capture) return kInvalidHandle;
  if (((a->flags | b->flags) & kEventDisableTiming) != 0) return kInvalidHandle;
  if (!reached(a->ticket) || !reached(b->ticket)) return kNotReady;
  *ms = static_cast<float>(*b->time_ms - *a->time_ms);
  return kSuccess;
}

}  // namespace gpk::sim::driver
