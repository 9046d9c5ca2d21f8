#include "core/memory.h"

#include <new>

#include "base/error.h"
#include "core/check.h"
#include "core/context.h"
#include "core/gated_work.h"
#include "core/page_locked.h"
#include "core/stream.h"

namespace gpk::inline core {
namespace {

constexpr std::align_val_t kHostAlignment{4096};  // like pinned memory

}  // namespace

RelaxedCaptureScope::RelaxedCaptureScope() : mode_(cu::kCaptureModeRelaxed) {
  driver().cuThreadExchangeStreamCaptureMode(&mode_);
}

RelaxedCaptureScope::~RelaxedCaptureScope() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }

PinnedMemory::PinnedMemory(Context* context, void* data, std::size_t bytes)
    : context_(context), data_(data), bytes_(bytes) {}

std::shared_ptr<PinnedMemory> PinnedMemory::allocate(Device device, std::size_t bytes) {
  Context* context = device.is_cuda() ? &Context::get(device.index) : nullptr;
  void* data = nullptr;
  if (bytes > 0 && context != nullptr) {
    data = allocate_page_locked(*context, bytes);
  } else if (bytes > 0) {
    data = ::operator new(bytes, kHostAlignment, std::nothrow);
  }
  if (bytes > 0 && data == nullptr) {
    OutOfMemory::Numbers numbers;
    numbers.asked_bytes = bytes;
    throw OutOfMemory("pinned memory", numbers);
  }
  return std::shared_ptr<PinnedMemory>(new PinnedMemory(context, data, bytes));
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  if (context_ == nullptr) {
    ::operator delete(data_, kHostAlignment);
    return;
  }
  free_page_locked(*context_, data_);
}

bool is_pinned(Context& context, const void* ptr) {
  context.make_current();
  unsigned type = 0;
  int attribute = cu::kPointerMemoryType;
  void* value = &type;
  // The plural form: it accepts memory unknown to the driver without an error.
  GPK_CU_CHECK(cuPointerGetAttributes, 1, &attribute, &value,
               static_cast<cu::DevicePtr>(reinterpret_cast<std::uintptr_t>(ptr)));
  return type == cu::kMemoryTypeHost;
}

bool is_pinned(Context& context, const void* ptr, std::size_t bytes) {
  context.make_current();
  struct Answer {
    unsigned type = 0;
    std::uintptr_t range_start = 0;
  };
  const auto ask = [](const char* at) {
    Answer answer;
    int attributes[] = {cu::kPointerMemoryType, cu::kPointerRangeStart};
    void* values[] = {&answer.type, &answer.range_start};
    GPK_CU_CHECK(cuPointerGetAttributes, 2, attributes, values,
                 static_cast<cu::DevicePtr>(reinterpret_cast<std::uintptr_t>(at)));
    return answer;
  };
  const auto* bytes_of = static_cast<const char*>(ptr);
  const Answer first = ask(bytes_of);
  if (first.type != cu::kMemoryTypeHost) return false;
  const Answer last = ask(bytes_of + bytes - 1);
  return last.type == cu::kMemoryTypeHost && last.range_start == first.range_start;
}

void copy_to_device(cu::DevicePtr dst, const void* src, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  stream.context()->make_current();
  GatedWork work(stream);
  GPK_CU_CHECK(cuMemcpyHtoDAsync, dst, src, bytes, stream.handle());
  work.submitted();
}

void copy_to_host(void* dst, cu::DevicePtr src, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  stream.context()->make_current();
  GatedWork work(stream);
  GPK_CU_CHECK(cuMemcpyDtoHAsync, dst, src, bytes, stream.handle());
  work.submitted();
}

void copy_on_device(cu::DevicePtr dst, cu::DevicePtr src, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  stream.context()->make_current();
  GatedWork work(stream);
  GPK_CU_CHECK(cuMemcpyDtoDAsync, dst, src, bytes, stream.handle());
  work.submitted();
}

void fill_on_device(cu::DevicePtr dst, std::uint32_t word, std::size_t word_bytes,
                    std::size_t count, Stream& stream) {
  if (count == 0) return;
  stream.context()->make_current();
  GatedWork work(stream);
  const cu::Stream on = stream.handle();
  switch (word_bytes) {
    case 1: GPK_CU_CHECK(cuMemsetD8Async, dst, static_cast<unsigned char>(word), count, on); break;
    case 2:
      GPK_CU_CHECK(cuMemsetD16Async, dst, static_cast<unsigned short>(word), count, on);
      break;
    default: GPK_CU_CHECK(cuMemsetD32Async, dst, word, count, on);
  }
  work.submitted();
}

void copy_peer(cu::DevicePtr dst, Context& dst_context, cu::DevicePtr src, Context& src_context,
               std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  stream.context()->make_current();
  GatedWork work(stream);
  GPK_CU_CHECK(cuMemcpyPeerAsync, dst, dst_context.handle(), src, src_context.handle(), bytes,
               stream.handle());
  work.submitted();
}

}  // namespace gpk::inline core
