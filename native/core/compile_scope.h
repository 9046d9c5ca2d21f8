// Tracks threads inside a compiler (the driver's or NVRTC): meanwhile neither fork() nor process
// exit is safe.
#pragma once

namespace gpk::inline core {

// Held around calls that compile and the handling of their results.
class CompileScope {
 public:
  CompileScope() noexcept;  // blocks forever after end_compiles()
  ~CompileScope();
  CompileScope(const CompileScope&) = delete;
  CompileScope& operator=(const CompileScope&) = delete;
};

// Call before exit() runs the compilers' static destructors: waits until no thread is inside a
// compiler, then blocks new entries. Python calls it at interpreter shutdown. In a C++ program it
// runs via atexit once one compile has finished; a program that may leave main() during its first
// compile must call it.
void end_compiles() noexcept;

// The process was forked while another thread was compiling: locks of the compiler and of the
// loader may be held forever in this child, so the compiler is off limits.
bool compiler_lost_in_fork() noexcept;

}  // namespace gpk::inline core
