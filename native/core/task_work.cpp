#include "core/task_work.h"

#include <algorithm>

namespace gpk::inline core {
namespace {

bool is_idle(Stream& stream) noexcept {
  try {
    return !stream.capturing() && stream.query();
  } catch (...) {  // a failure is reported when the task ends
    return false;
  }
}

// Keeps the list as short as the work in flight, however much the task creates and drops over its
// life.
template <class List, class IsOver>
void sweep(List& list, std::size_t& max, const IsOver& is_over) {
  if (list.size() < max) return;
  std::erase_if(list, is_over);
  max = std::max(max, 2 * list.size());
}

}  // namespace

thread_local constinit TaskWork* TaskWork::t_current = nullptr;

void TaskWork::add(Stream& stream) {
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [&](const auto& known) { return known.get() == &stream; });
  if (found == streams_.end()) {
    sweep(streams_, max_streams_, [](const auto& known) { return is_idle(*known); });
    streams_.push_back(stream.shared_from_this());
  }
  last_ = &stream;
}

void TaskWork::note(HasEnded has_ended) {
  sweep(others_, max_others_, [](const auto& known) { return known(); });
  others_.push_back(std::move(has_ended));
}

}  // namespace gpk::inline core
