// Who is inside a compiler, the driver's or NVRTC: meanwhile neither fork() nor the end of the
// process can be let through.
#pragma once

namespace gpk::inline core {

// Held around calls that compile, and what follows them.
class CompileScope {
 public:
  CompileScope() noexcept;  // blocks for ever after end_compiles()
  ~CompileScope();
  CompileScope(const CompileScope&) = delete;
  CompileScope& operator=(const CompileScope&) = delete;
};

// Before exit() runs the compilers' static destructors: waits until nobody is inside and lets
// nobody in from then on. Python calls it when the interpreter ends. In a C++ program it runs at
// exit by itself once one compile has ended; one that leaves main() during its first calls it.
void end_compiles() noexcept;

// The process was forked while another thread was inside: locks of the compiler and of the loader
// may be held here for ever, so it is not used any more.
bool compiler_lost_in_fork() noexcept;

}  // namespace gpk::inline core
