// Streams and events.
#include "fake_driver/fake_state.h"

namespace fake {

FakeStream* find_stream(cu::Stream handle) {
  constexpr std::uintptr_t kPerThreadStream = 2;  // 0 and 1: the legacy stream; all one here
  if (reinterpret_cast<std::uintptr_t>(handle) > kPerThreadStream)
    return state().streams.find(handle);
  FakeContext* context = current_context();
  return context == nullptr ? nullptr : &context->legacy;
}

StreamInfo stream_info(cu::Stream stream) {
  const std::lock_guard lock(mutex());
  const FakeStream* found = find_stream(stream);
  return found == nullptr ? StreamInfo{}
                          : StreamInfo{found->flags, found->priority, found->num_sms};
}

void set_busy(cu::Stream stream, bool busy) {
  const std::lock_guard lock(mutex());
  if (FakeStream* found = find_stream(stream); found != nullptr) found->busy = busy;
}

namespace {

// Whether the work before the event is not done.
bool is_pending(FakeEvent& event) {
  if (!event.pending) return false;
  const FakeStream* stream = find_stream(event.stream);
  event.pending = stream != nullptr && stream->busy;
  return event.pending;
}

void note(const char* call, const FakeStream& stream, cu::Event event) {
  state().stream_calls.push_back({call, stream.handle, event});
}

// Waiting for or asking a stream or event: never inside a capture, nor, while the calling thread
// captures, outside of it. So an H200 answers.
Result check_wait(const FakeStream& stream) {
  if (!stream.capture) return check_unsafe_call();
  stream.capture->invalid = true;
  return cu::kStreamCaptureUnsupported;
}

Result check_wait(const FakeEvent& event) {
  if (!event.capture) return check_unsafe_call();
  event.capture->invalid = true;
  return kCapturedEvent;
}

// Waiting for an event of another capture, or from outside of one.
Result join_capture(FakeStream& stream, const FakeEvent& event) {
  if (stream.capture) {
    if (stream.capture->invalid) return cu::kStreamCaptureInvalidated;
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
  return cu::kSuccess;
}

}  // namespace

namespace impl {

Result cuStreamCreateWithPriority(Stream* stream, unsigned flags, int priority) {
  const FakeContext* context = current_context();
  if (context == nullptr) return kInvalidContext;
  auto made = std::make_unique<FakeStream>();
  made->device = context->device;
  made->flags = flags;
  made->priority = priority;
  made->handle = reinterpret_cast<Stream>(made.get());
  *stream = state().streams.add(std::move(made));
  return kSuccess;
}

Result cuStreamDestroy(Stream stream) {
  const FakeStream* found = state().streams.find(stream);
  if (found == nullptr) return kInvalidHandle;
  if (found->capture) found->capture->invalid = true;
  state().streams.erase(stream);
  return kSuccess;
}

Result cuStreamSynchronize(Stream stream) {
  FakeStream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  if (const Result result = check_wait(*found); result != kSuccess) return result;
  found->busy = false;
  return kSuccess;
}

Result cuStreamQuery(Stream stream) {
  const FakeStream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  if (const Result result = check_wait(*found); result != kSuccess) return result;
  return found->busy ? kNotReady : kSuccess;
}

Result cuStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  FakeStream* found = find_stream(stream);
  const FakeEvent* waited = state().events.find(event);
  if (found == nullptr || waited == nullptr) return kInvalidHandle;
  if (flags != 0) return kInvalidValue;
  note("cuStreamWaitEvent", *found, event);
  return join_capture(*found, *waited);
}

Result cuEventCreate(Event* event, unsigned flags) {
  const FakeContext* context = current_context();
  if (context == nullptr) return kInvalidContext;
  auto made = std::make_unique<FakeEvent>();
  made->device = context->device;
  made->flags = flags;
  *event = state().events.add(std::move(made));
  return kSuccess;
}

Result cuEventDestroy(Event event) {
  return state().events.erase(event) ? kSuccess : kInvalidHandle;
}

Result cuEventRecord(Event event, Stream stream) {
  FakeStream* found = find_stream(stream);
  FakeEvent* recorded = state().events.find(event);
  if (found == nullptr || recorded == nullptr || found->device != recorded->device)
    return kInvalidHandle;
  if (found->capture && found->capture->invalid) return kStreamCaptureInvalidated;
  note("cuEventRecord", *found, event);
  recorded->recorded = true;
  recorded->stream = found->handle;
  recorded->pending = found->busy;
  recorded->time_ms = state().clock_ms += 0.001;
  recorded->capture = found->capture;
  recorded->tail = found->tail;
  return kSuccess;
}

Result cuEventQuery(Event event) {
  FakeEvent* found = state().events.find(event);
  if (found == nullptr) return kInvalidHandle;
  if (const Result result = check_wait(*found); result != kSuccess) return result;
  return is_pending(*found) ? kNotReady : kSuccess;
}

Result cuEventSynchronize(Event event) {
  FakeEvent* found = state().events.find(event);
  if (found == nullptr) return kInvalidHandle;
  if (const Result result = check_wait(*found); result != kSuccess) return result;
  found->pending = false;
  return kSuccess;
}

Result cuEventElapsedTime(float* ms, Event start, Event stop) {
  FakeEvent* a = state().events.find(start);
  FakeEvent* b = state().events.find(stop);
  if (a == nullptr || b == nullptr || a->device != b->device) return kInvalidHandle;
  if (!a->recorded || !b->recorded || a->capture || b->capture) return kInvalidHandle;
  if (((a->flags | b->flags) & kEventDisableTiming) != 0) return kInvalidHandle;
  if (is_pending(*a) || is_pending(*b)) return kNotReady;
  *ms = static_cast<float>(b->time_ms - a->time_ms);
  return kSuccess;
}

}  // namespace impl
}  // namespace fake
