// Streams that pretend to be busy: their work is done, but queries and events say otherwise.
#include "fake_driver/fake_state.h"

namespace fake {
namespace {

template <class Which>
void end_work(const Which& of) {
  std::erase_if(state().busy, of);
  std::erase_if(state().pending, [&](const auto& entry) { return of(entry.second); });
}

}  // namespace

void set_busy(cu::Stream stream, bool busy) {
  const std::lock_guard lock(mutex());
  const sim::SimStream* found = sim::find_stream(stream);
  if (busy && found != nullptr) state().busy.insert(found);
  if (!busy) end_work([&](const sim::SimStream* one) { return one == found; });
}

void advance_ms(double ms) {
  const std::lock_guard lock(mutex());
  state().clock_ms += ms;
}

StreamInfo stream_info(cu::Stream stream) {
  const std::lock_guard lock(mutex());
  const sim::SimStream* found = sim::find_stream(stream);
  return found == nullptr ? StreamInfo{}
                          : StreamInfo{found->flags, found->priority, found->num_sms};
}

namespace impl {

Result cuCtxSynchronize() {
  const Result result = sim::cuCtxSynchronize();
  if (result != kSuccess) return result;
  end_work([](const SimStream* one) { return one->device == current_context()->device; });
  return kSuccess;
}

Result cuStreamDestroy(Stream stream) {
  const SimStream* found = find_stream(stream);
  const Result result = sim::cuStreamDestroy(stream);
  if (result == kSuccess) end_work([&](const SimStream* one) { return one == found; });
  return result;
}

Result cuStreamSynchronize(Stream stream) {
  const SimStream* found = find_stream(stream);
  const Result result = sim::cuStreamSynchronize(stream);
  if (result == kSuccess) end_work([&](const SimStream* one) { return one == found; });
  return result;
}

Result cuStreamQuery(Stream stream) {
  const Result result = sim::cuStreamQuery(stream);
  return result == kSuccess && state().busy.contains(find_stream(stream)) ? kNotReady : result;
}

Result cuEventDestroy(Event event) {
  const Result result = sim::cuEventDestroy(event);
  if (result == kSuccess) state().pending.erase(event);
  return result;
}

Result cuEventRecord(Event event, Stream stream) {
  const Result result = sim::cuEventRecord(event, stream);
  if (result != kSuccess) return result;
  state().pending.erase(event);
  const SimStream* found = find_stream(stream);
  if (state().busy.contains(found)) state().pending[event] = found;
  return kSuccess;
}

Result cuEventSynchronize(Event event) {
  const Result result = sim::cuEventSynchronize(event);
  if (result == kSuccess) state().pending.erase(event);
  return result;
}

Result cuEventQuery(Event event) {
  const Result result = sim::cuEventQuery(event);
  return result == kSuccess && state().pending.contains(event) ? kNotReady : result;
}

Result cuEventElapsedTime(float* ms, Event start, Event stop) {
  const Result result = sim::cuEventElapsedTime(ms, start, stop);
  const auto& pending = state().pending;
  const bool done = !pending.contains(start) && !pending.contains(stop);
  return result == kSuccess && !done ? kNotReady : result;
}

}  // namespace impl
}  // namespace fake
