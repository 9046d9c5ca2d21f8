// Kernels in the process's trace (core/trace_log.h), each with its time on the GPU.
//
//   TracedKernel traced("scale", config.grid, config.block, *stream);
//   <the driver call>
//   traced.submitted();
//
// The time is measured between an event before the launch and one after it: a kernel on an idle
// stream includes launch latency, and while tracing, kernels of one stream do not overlap. Work on
// a stream that is being captured is not traced.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpk::inline core {

class Stream;

// Everything in the library records from now on.
void start_trace();
// Waits for the kernels being traced, then stops recording.
void stop_trace();
// Moves completed kernels into the trace.
void collect_kernel_trace();

namespace detail {
inline constinit std::atomic<bool> g_tracing_kernels{false};
}

// One relaxed load and a branch while the trace is off. Never throws: a kernel that cannot be timed
// is omitted.
class TracedKernel {
 public:
  // `name` must live as long as the process. Sizes may be nullptr where there are none (a graph).
  TracedKernel(const char* name, const unsigned* grid, const unsigned* block,
               Stream& stream) noexcept {
    if (detail::g_tracing_kernels.load(std::memory_order_relaxed)) [[unlikely]]
      begin(name, grid, block, stream);
  }
  ~TracedKernel() {
    if (start_ != 0) [[unlikely]]
      end(false);
  }
  TracedKernel(const TracedKernel&) = delete;
  TracedKernel& operator=(const TracedKernel&) = delete;
  void submitted() noexcept {
    if (start_ != 0) [[unlikely]]
      end(true);
  }

 private:
  void begin(const char* name, const unsigned* grid, const unsigned* block,
             Stream& stream) noexcept;
  void end(bool submitted) noexcept;

  std::uint64_t start_ = 0;  // event; 0: not traced
  // Set together with start_.
  std::uint64_t run_;
  const char* name_;
  Stream* stream_;
  double num_blocks_;
  double num_threads_;
};

}  // namespace gpk::inline core
