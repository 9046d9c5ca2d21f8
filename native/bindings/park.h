// Threads that outlive the interpreter.
#pragma once

namespace gpk::bind {

// Blocks the calling thread until the process ends.
[[noreturn]] void park() noexcept;

}  // namespace gpk::bind
