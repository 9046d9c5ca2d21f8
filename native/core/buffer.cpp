#include "core/buffer.h"

#include <algorithm>

#include "core/context.h"
#include "core/device_pool.h"
#include "core/error.h"
#include "core/graph.h"
#include "core/memory_account.h"
#include "core/release.h"
#include "core/stream.h"

namespace gpk {

Buffer::Buffer(Key, Device device, void* data, std::size_t bytes)
    : device_(device), data_(data), bytes_(bytes) {}

std::shared_ptr<Buffer> Buffer::allocate(Device device, std::size_t bytes) {
  auto buffer = std::make_shared<Buffer>(Key{}, device, nullptr, bytes);
  if (bytes > 0) buffer->take_block(bytes);
  return buffer;
}

void Buffer::take_block(std::size_t bytes) {
  runtime::PoolPlace place;
  runtime::Pool::Stream stream = 0;
  if (has_thread_places()) [[unlikely]]
    account_ = apply_thread_place(device_, place);
  if (device_.is_cuda()) {
    if (releases_pending()) [[unlikely]]
      release_finished();
    home_ = current_stream(device_);
    last_.store(home_.get(), std::memory_order_relaxed);
    stream = pool_stream(*home_);
    if (runtime::PoolArena* arena = capture_arena(device_); arena != nullptr) [[unlikely]] {
      place.arena = arena;
      arena_id_ = arena->id;
    }
    Context* context = home_->context();
    context->make_current();
    pool_ = &context->pool();
  } else {
    pool_ = &device_pool(device_);
  }
  try {
    block_ = pool_->allocate(bytes, stream, place);
  } catch (const runtime::PoolOutOfMemory& error) {
    throw_out_of_memory(error, "allocate");
  }
  movable_ = arena_id_ == 0 && pool_->can_evict(block_);
  data_ = reinterpret_cast<void*>(static_cast<std::uintptr_t>(block_->address));
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
  try {
    give_back();
  } catch (...) {  // a lost device has no work left to wait for, and no memory to give back
  }
}

void Buffer::give_back() {
  std::vector<runtime::Pool::Stream> others;
  const bool in_capture = arena_id_ != 0 && home_->capturing();
  for (const auto& user : users_) {
    // An event of a capture cannot be polled: there the order is made part of the graph.
    if (in_capture && user->capturing())
      home_->wait(*user);
    else
      others.push_back(pool_stream(*user));
  }
  pool_->free(block_, others);
}

void Buffer::begin_use_movable(Stream& stream) {
  // The stream of a capture can neither be waited for nor bring anything back: a pin does it now.
  if (capturing_graph() != nullptr && stream.capturing()) [[unlikely]]
    return pin();
  try {
    pool_->acquire(block_, pool_stream(stream));
  } catch (const runtime::PoolOutOfMemory& error) {
    throw_out_of_memory(error, "restore");
  }
}

void Buffer::pin() {
  if (!movable_) return;
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
  if (movable_) pool_->unpin(block_);
}

void Buffer::hold() {
  pin();
  num_holds_.fetch_add(1);
}

bool Buffer::let_go() noexcept {
  std::uint32_t num = num_holds_.load();
  do {
    if (num == 0) return false;
  } while (!num_holds_.compare_exchange_weak(num, num - 1));
  unpin();
  return true;
}

void Buffer::mark_use_slow(const std::shared_ptr<Stream>& stream) {
  // Work that is captured runs at replays, whose streams the graph marks: it keeps the buffer.
  if (arena_id_ == 0 && capturing_graph() != nullptr && stream->capturing()) return;
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
