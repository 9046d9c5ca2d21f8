#include "core/stream.h"

#include <atomic>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "core/check.h"
#include "core/context.h"
#include "core/device_memory.h"
#include "core/event.h"
#include "core/graph.h"
#include "core/green_context.h"
#include "core/memory.h"
#include "core/stream_tenant.h"

namespace gpk::inline core {
namespace {

struct CurrentStreams {
  std::shared_ptr<Stream> cpu;
  std::vector<std::shared_ptr<Stream>> cuda;  // by device index
};

CurrentStreams& current_streams() {
  thread_local CurrentStreams streams;
  return streams;
}

std::shared_ptr<Stream>& slot_for(Device device) {
  CurrentStreams& streams = current_streams();
  if (!device.is_cuda()) return streams.cpu;
  const auto index = static_cast<std::size_t>(device.index);
  if (index >= 64) [[unlikely]]  // a negative index wraps to a large one
    throw InvalidArgument(cat("device: cuda:", device.index, " does not exist"));
  if (index >= streams.cuda.size()) [[unlikely]]
    streams.cuda.resize(index + 1);
  return streams.cuda[index];
}

}  // namespace

Stream::Stream(Device device, Context* context, cu::Stream handle, StreamPriority priority,
               bool owned, std::shared_ptr<void> owner)
    : device_(device),
      context_(context),
      handle_(handle),
      priority_(priority),
      owned_(owned),
      owner_(std::move(owner)) {}

std::shared_ptr<Stream> Stream::create(Device device, StreamPriority priority) {
  if (!device.is_cuda()) {
    static std::atomic<std::uintptr_t> next{16};  // an identity; small values are reserved
    return std::shared_ptr<Stream>(new Stream(device, nullptr, reinterpret_cast<cu::Stream>(next++),
                                              priority, false, nullptr));
  }
  Context& context = Context::get(device.index);
  context.make_current();
  cu::Stream handle = nullptr;
  const int number = priority == StreamPriority::kHigh ? context.greatest_priority() : 0;
  GPK_CU_CHECK(cuStreamCreateWithPriority, &handle, cu::kStreamNonBlocking, number);
  std::shared_ptr<Stream> stream(new Stream(device, &context, handle, priority, true, nullptr));
  stream->driver_priority_ = number;
  return stream;
}

std::shared_ptr<Stream> Stream::create_in(Device device, std::shared_ptr<GreenContext> green,
                                          int priority) {
  Context& context = Context::get(device.index);
  context.make_current();
  cu::Stream handle = nullptr;
  if (green) {
    GPK_CU_CHECK(cuGreenCtxStreamCreate, &handle, green->handle(), cu::kStreamNonBlocking,
                 priority);
  } else {
    GPK_CU_CHECK(cuStreamCreateWithPriority, &handle, cu::kStreamNonBlocking, priority);
  }
  const bool high = priority < 0 && priority == context.greatest_priority();
  // The stream keeps its green context alive: the handle is invalid without it.
  std::shared_ptr<Stream> stream(new Stream(device, &context, handle,
                                            high ? StreamPriority::kHigh : StreamPriority::kLow,
                                            true, std::move(green)));
  stream->driver_priority_ = priority;
  return stream;
}

std::shared_ptr<Stream> Stream::wrap(Device device, std::uintptr_t handle,
                                     std::shared_ptr<void> owner) {
  Context* context = device.is_cuda() ? &Context::get(device.index) : nullptr;
  return std::shared_ptr<Stream>(new Stream(device, context, reinterpret_cast<cu::Stream>(handle),
                                            StreamPriority::kLow, false, std::move(owner)));
}

std::shared_ptr<Stream> Stream::make_default(Context& context) {
  return std::shared_ptr<Stream>(
      new Stream(context.device(), &context, nullptr, StreamPriority::kLow, false, nullptr));
}

std::shared_ptr<Stream> Stream::default_for(Device device) {
  if (device.is_cuda()) return Context::get(device.index).default_stream();
  static const auto* stream = new std::shared_ptr<Stream>(
      new Stream(device, nullptr, nullptr, StreamPriority::kLow, false, nullptr));
  return *stream;
}

void Stream::set_tenant(std::unique_ptr<StreamTenant> tenant) {
  tenant_ = std::move(tenant);
  gate_ = tenant_->gate.get();
}

std::optional<std::uint64_t> Stream::bandwidth_member() const noexcept {
  return tenant_ ? tenant_->bandwidth_member : std::nullopt;
}

std::shared_ptr<GreenContext> Stream::green() const noexcept {
  return tenant_ ? tenant_->green : nullptr;
}

Stream::~Stream() {
  if (tenant_) tenant_->gate.reset();  // it holds events of the stream
  if (context_ == nullptr || handle_ == nullptr) return;
  try {
    context_->make_current();
    const RelaxedCaptureScope relaxed;        // a stream may be destroyed while another is captured
    context_->memory().forget_stream(*this);  // the driver may reuse its handle
    if (owned_) driver().cuStreamDestroy(handle_);
  } catch (...) {  // the device is lost, and its streams with it
  }
}

bool Stream::capturing() {
  if (context_ == nullptr) return false;
  context_->make_current();
  int status = cu::kCaptureStatusNone;
  // The legacy stream cannot capture; querying it while another stream captures is an error.
  if (handle_ == nullptr) return false;
  GPK_CU_CHECK(cuStreamIsCapturing, handle_, &status);
  return status != cu::kCaptureStatusNone;
}

void Stream::synchronize() {
  forbid_in_capture("synchronize", "the work is only being recorded");
  if (context_ == nullptr) return;
  context_->make_current();
  GPK_CU_CHECK(cuStreamSynchronize, handle_);
  context_->check_report(handle_);
}

bool Stream::query() {
  forbid_in_capture("query", "the work is only being recorded");
  if (context_ == nullptr) return true;
  context_->make_current();
  const cu::Result result = driver().cuStreamQuery(handle_);
  if (result == cu::kNotReady) return false;
  check_cuda(result, "cuStreamQuery");
  return true;
}

void Stream::wait(const Event& event) {
  if (context_ == nullptr || event.handle() == nullptr) return;
  context_->make_current();
  GPK_CU_CHECK(cuStreamWaitEvent, handle_, event.handle(), 0);
}

void Stream::wait(Stream& other) {
  if (&other == this || context_ == nullptr || other.context_ == nullptr) return;
  const auto event = Event::create(other.device(), {.timing = false});
  event->record(other);
  wait(*event);
}

const std::shared_ptr<Stream>& current_stream(Device device) {
  std::shared_ptr<Stream>& slot = slot_for(device);
  if (!slot) [[unlikely]]
    slot = Stream::default_for(device);
  return slot;
}

std::shared_ptr<Stream> exchange_current_stream(std::shared_ptr<Stream> stream) {
  std::shared_ptr<Stream>& slot = slot_for(stream->device());
  std::shared_ptr<Stream> previous = slot ? slot : Stream::default_for(stream->device());
  slot = std::move(stream);
  return previous;
}

void reset_streams_for_testing() { current_streams() = CurrentStreams{}; }

}  // namespace gpk::inline core
