#include "device/foreground.h"

#include "base/error.h"

namespace gpk::device {

Foreground::Source::~Source() {
  if (last_ != 0) owner_.events_.release(last_);
}

void Foreground::Source::submitted(cu::Stream stream) {
  if (owner_.num_yielding_.load(std::memory_order_relaxed) == 0) return;
  const EventCache::EventId event = owner_.events_.record(stream);
  const std::lock_guard lock(mutex_);
  if (last_ != 0) owner_.events_.release(last_);
  last_ = event;
}

bool Foreground::Source::active() {
  if (num_submitting_.load(std::memory_order_relaxed) > 0) return true;
  const std::lock_guard lock(mutex_);
  if (last_ == 0) return false;
  try {
    if (!owner_.events_.poll(last_)) return true;
  } catch (const Error&) {  // failed work is over; whoever waits for it gets the error
  }
  owner_.events_.release(last_);
  last_ = 0;
  return false;
}

std::shared_ptr<Foreground::Source> Foreground::add() {
  auto source = std::make_shared<Source>(*this);
  const std::lock_guard lock(mutex_);
  std::erase_if(sources_, [](const auto& other) { return other.expired(); });
  sources_.push_back(source);
  return source;
}

bool Foreground::active(std::int64_t now_ns, std::int64_t quiet_ns) {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const auto& weak : sources_)
    if (const auto source = weak.lock(); source && source->active()) {
      any = true;
      break;
    }
  if (any && !was_active_) activity_.begin();
  if (!any && was_active_) activity_.end(now_ns);
  was_active_ = any;
  return activity_.active(now_ns, quiet_ns);
}

}  // namespace gpk::device
