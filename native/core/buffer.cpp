#include "core/buffer.h"

#include <algorithm>
#include <iterator>

#include "core/device_memory.h"
#include "core/graph.h"
#include "core/release.h"
#include "core/stream.h"

namespace gpk::inline core {

std::shared_ptr<Buffer> Buffer::allocate(Device device, std::size_t bytes) {
  if (bytes == 0) return wrap(device, nullptr, 0, nullptr);
  return device_memory(device).allocate(bytes);
}

std::shared_ptr<Buffer> Buffer::wrap(Device device, void* data, std::size_t bytes,
                                     std::shared_ptr<void> owner) {
  std::shared_ptr<Buffer> buffer(new Buffer(device, data, bytes));
  buffer->owner_ = std::move(owner);
  buffer->set_content(Content::kUnknown);
  return buffer;
}

Buffer::~Buffer() {
  // The owner may reuse the memory at once; our work on it may still be in flight.
  if (owner_ != nullptr && !users_.empty()) release_after(users_, std::move(owner_));
}

void Buffer::begin_use_movable(Stream& /*stream*/) { pin_movable(); }

void Buffer::expose() {
  if (exposed_.exchange(true)) return;
  try {
    pin();
  } catch (...) {
    exposed_ = false;
    throw;
  }
}

void Buffer::hold() {
  pin();
  num_holds_.fetch_add(1);
}

bool Buffer::release_hold() noexcept {
  std::uint32_t num = num_holds_.load();
  do {
    if (num == 0) return false;
  } while (!num_holds_.compare_exchange_weak(num, num - 1));
  unpin();
  return true;
}

namespace {

bool may_have_work(const std::shared_ptr<Stream>& stream) {
  try {
    return !stream->retired() || capturing_graph() != nullptr || !stream->query();
  } catch (...) {  // reported where the work is waited for
    return true;
  }
}

}  // namespace

void Buffer::mark_use_slow(const std::shared_ptr<Stream>& stream) {
  // Captured work runs at replay, on streams the graph marks; the graph keeps the buffer alive.
  if (capture_id_ == 0 && capturing_graph() != nullptr && stream->capturing()) return;
  std::vector<std::shared_ptr<Stream>> retired;  // destroyed after unlocking
  const std::lock_guard lock(users_mutex_);
  const auto first = std::stable_partition(users_.begin(), users_.end(), may_have_work);
  retired.assign(std::make_move_iterator(first), std::make_move_iterator(users_.end()));
  users_.erase(first, users_.end());
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

}  // namespace gpk::inline core
