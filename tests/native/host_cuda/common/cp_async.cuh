// native/kernels/common/cp_async.cuh in C++. A copy is done when the thread waits for it and no
// sooner, so that a wait that is missing shows.
#pragma once

#include <deque>

#include "common/shared.cuh"

namespace gpk {
namespace detail {

struct AsyncCopy {
  unsigned to;
  const void* from;
  int bytes;
  int size;
};
inline thread_local std::vector<AsyncCopy> t_open_group;
inline thread_local std::deque<std::vector<AsyncCopy>> t_groups;

}  // namespace detail

template <int kBytes>
void cp_async(unsigned to, const void* from, int bytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  detail::t_open_group.push_back({to, from, bytes, kBytes});
}
template <int kBytes>
void cp_async(unsigned to, const void* from) {
  cp_async<kBytes>(to, from, kBytes);
}

inline void cp_async_commit() {
  detail::t_groups.push_back(std::move(detail::t_open_group));
  detail::t_open_group.clear();
}

template <int kPending>
void cp_async_wait() {
  while (detail::t_groups.size() > kPending) {
    for (const detail::AsyncCopy& copy : detail::t_groups.front()) {
      unsigned char* const to = detail::at_shared(copy.to);
      std::memcpy(to, copy.from, static_cast<std::size_t>(copy.bytes));
      std::memset(to + copy.bytes, 0, static_cast<std::size_t>(copy.size - copy.bytes));
    }
    detail::t_groups.pop_front();
  }
}

}  // namespace gpk
