#include "core/buffer.h"

#include <algorithm>
#include <new>

#include "core/context.h"
#include "core/error.h"
#include "core/graph.h"
#include "core/memory.h"
#include "core/release.h"
#include "core/stream.h"
#include "runtime/pool_account.h"

namespace gpk {
namespace {

constexpr std::align_val_t kHostAlignment{64};

}  // namespace

Buffer::Buffer(Key, Device device, void* data, std::size_t bytes)
    : device_(device), data_(data), bytes_(bytes) {}

std::shared_ptr<Buffer> Buffer::allocate(Device device, std::size_t bytes) {
  auto buffer = std::make_shared<Buffer>(Key{}, device, nullptr, bytes);
  if (bytes == 0) return buffer;
  buffer->charge();
  if (!device.is_cuda()) {
    buffer->data_ = ::operator new(bytes, kHostAlignment, std::nothrow);
    if (buffer->data_ == nullptr) {
      OutOfMemory::Numbers numbers;
      numbers.asked_bytes = bytes;
      numbers.device_free_bytes = memory_info(device).free_bytes;
      throw OutOfMemory("allocate", numbers);
    }
    buffer->owned_ = true;
    return buffer;
  }
  if (releases_pending()) [[unlikely]]
    release_finished();
  buffer->home_ = current_stream(device);
  buffer->last_.store(buffer->home_.get(), std::memory_order_relaxed);
  auto allocator = capture_allocator(device);
  if (!allocator) {
    Context* context = buffer->home_->context();
    context->make_current();
    allocator = context->allocator();
  }
  const cu::DevicePtr ptr = allocator->allocate(bytes, buffer->home_->handle());
  buffer->data_ = reinterpret_cast<void*>(static_cast<std::uintptr_t>(ptr));
  buffer->allocator_ = std::move(allocator);
  buffer->owned_ = true;
  return buffer;
}

void Buffer::charge() {
  runtime::PoolAccount* account = current_stream(device_)->account();
  if (account == nullptr) [[likely]]
    return;
  if (!account->charge(bytes_)) {
    account->count_refusal();
    const runtime::PoolAccountStats stats = account->stats();
    OutOfMemory::Numbers numbers;
    numbers.asked_bytes = bytes_;
    numbers.used_bytes = stats.used_bytes;
    numbers.limit_bytes = stats.limit_bytes;
    numbers.device_free_bytes = memory_info(device_).free_bytes;
    throw OutOfMemory("allocate: the partition's limit", numbers);
  }
  account_ = account;
}

std::shared_ptr<Buffer> Buffer::wrap(Device device, void* data, std::size_t bytes,
                                     std::shared_ptr<void> owner) {
  auto buffer = std::make_shared<Buffer>(Key{}, device, data, bytes);
  buffer->owner_ = std::move(owner);
  return buffer;
}

Buffer::~Buffer() {
  if (account_ != nullptr) account_->uncharge(bytes_);
  if (!owned_) {
    // The owner may hand the memory out again at once; our work on it may not be done.
    if (!users_.empty()) release_after(users_, std::move(owner_));
    return;
  }
  if (!device_.is_cuda()) {
    ::operator delete(data_, kHostAlignment);
    return;
  }
  for (const auto& user : users_) {
    try {
      home_->wait(*user);
    } catch (...) {  // a lost device has no work left to wait for
    }
  }
  allocator_->free(device_ptr(), bytes_, home_->handle());
}

void Buffer::mark_use_slow(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(users_mutex_);
  if (stream != home_ && std::find(users_.begin(), users_.end(), stream) == users_.end())
    users_.push_back(stream);
  last_.store(stream.get(), std::memory_order_relaxed);
}

void Buffer::order_before(Stream& stream) {
  const std::lock_guard lock(users_mutex_);
  if (home_ != nullptr && home_.get() != &stream && home_->context() != nullptr)
    stream.wait(*home_);
  for (const auto& user : users_)
    if (user.get() != &stream) stream.wait(*user);
}

}  // namespace gpk
