#include "core/buffer.h"

#include <algorithm>

#include "core/context.h"
#include "core/device_pool.h"
#include "core/error.h"
#include "core/graph.h"
#include "core/release.h"
#include "core/stream.h"

namespace gpk {

Buffer::Buffer(Key, Device device, void* data, std::size_t bytes)
    : device_(device), data_(data), bytes_(bytes) {}

std::shared_ptr<Buffer> Buffer::allocate(Device device, std::size_t bytes) {
  auto buffer = std::make_shared<Buffer>(Key{}, device, nullptr, bytes);
  if (bytes == 0) return buffer;
  runtime::PoolPlace place;
  runtime::Pool::Stream stream = 0;
  if (device.is_cuda()) {
    if (releases_pending()) [[unlikely]]
      release_finished();
    buffer->home_ = current_stream(device);
    buffer->last_.store(buffer->home_.get(), std::memory_order_relaxed);
    stream = pool_stream(*buffer->home_);
    place.arena = capture_arena(device);
    buffer->captured_ = place.arena != nullptr;
    Context* context = buffer->home_->context();
    context->make_current();
    buffer->pool_ = &context->pool();
  } else {
    buffer->pool_ = &device_pool(device);
  }
  try {
    buffer->block_ = buffer->pool_->allocate(bytes, stream, place);
  } catch (const runtime::PoolOutOfMemory& error) {
    throw_out_of_memory(error, "allocate");
  }
  buffer->data_ = reinterpret_cast<void*>(static_cast<std::uintptr_t>(buffer->block_->address));
  return buffer;
}

std::shared_ptr<Buffer> Buffer::wrap(Device device, void* data, std::size_t bytes,
                                     std::shared_ptr<void> owner) {
  auto buffer = std::make_shared<Buffer>(Key{}, device, data, bytes);
  buffer->owner_ = std::move(owner);
  return buffer;
}

Buffer::~Buffer() {
  if (block_ == nullptr) {
    // The owner may hand the memory out again at once; our work on it may not be done.
    if (!users_.empty()) release_after(users_, std::move(owner_));
    return;
  }
  if (exposed_) unpin();
  try {
    std::vector<runtime::Pool::Stream> others;
    for (const auto& user : users_) {
      if (captured_) {
        home_->wait(*user);  // an event of a capture cannot be polled
      } else {
        others.push_back(pool_stream(*user));
      }
    }
    pool_->free(block_, others);
  } catch (...) {  // a lost device has no work left to wait for, and no memory to give back
  }
}

void Buffer::begin_use(const std::shared_ptr<Stream>& stream) {
  mark_use(stream);
  if (block_ == nullptr) return;
  try {
    pool_->acquire(block_, pool_stream(*stream));
  } catch (const runtime::PoolOutOfMemory& error) {
    throw_out_of_memory(error, "restore");
  }
}

void Buffer::end_use() noexcept {
  if (block_ != nullptr) pool_->release(block_);
}

void Buffer::pin() {
  if (block_ == nullptr) return;
  try {
    pool_->pin(block_);
  } catch (const runtime::PoolOutOfMemory& error) {
    throw_out_of_memory(error, "restore");
  }
}

void Buffer::expose() {
  if (exposed_.exchange(true)) return;
  try {
    pin();
  } catch (...) {
    exposed_ = false;
    throw;
  }
}

void Buffer::unpin() noexcept {
  if (block_ != nullptr) pool_->unpin(block_);
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
