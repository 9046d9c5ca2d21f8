// Compilers at work: the driver's and NVRTC. Their libraries have globals that go away when the
// process exits, so it must not exit under a thread that is inside one of them.
#pragma once

namespace gpk {

class CompileScope {
 public:
  // Throws Error when the process is exiting.
  CompileScope();
  ~CompileScope();
  CompileScope(const CompileScope&) = delete;
  CompileScope& operator=(const CompileScope&) = delete;
};

// Lets no compile begin any more and waits, for half a minute at most, until those under way have
// ended. Python calls it when the interpreter ends. In a C++ program it runs at exit by itself once
// one compile has ended; one that leaves main() during its first compile calls it.
void end_compiles() noexcept;

}  // namespace gpk
