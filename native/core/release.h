// Deferred release of things that GPU work may still use (another library's memory, a pinned
// destination): kept until that work is done, without waiting for it.
#pragma once

#include <memory>
#include <vector>

namespace gpk::inline core {

class Stream;

// Releases `owner` when the work submitted so far to `streams` is done: now if it is, else in a
// later call of this function or of release_finished().
void release_after(const std::vector<std::shared_ptr<Stream>>& streams,
                   std::shared_ptr<void> owner) noexcept;

// True when releases are pending. One relaxed load.
bool releases_pending() noexcept;

// Releases what is no longer in use.
void release_finished() noexcept;

}  // namespace gpk::inline core
