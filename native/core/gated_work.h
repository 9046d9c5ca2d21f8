// One submission of work to a stream: recorded for the task that makes it, and passed through the
// stream's gate if it has one.
#pragma once

#include <cstdint>
#include <memory>

#include "core/stream.h"
#include "core/task_work.h"

namespace gpk::inline core {

// Controls when work may be submitted to a stream (device/launch_gate.h has the implementation).
// Thread safe.
class SubmissionGate {
 public:
  // Held around one submission.
  class Pass {
   public:
    virtual ~Pass() = default;
    // The driver has accepted the work.
    virtual void submitted() = 0;
  };

  virtual ~SubmissionGate() = default;
  // Blocks the host until the work may be submitted.
  virtual std::unique_ptr<Pass> enter() = 0;
  // Target duration of a slice of a long kernel of ours; 0: kernels are not sliced.
  [[nodiscard]] virtual std::int64_t slice_ns() const noexcept = 0;
};

//   GatedWork work(*stream);
//   <the driver call>
//   work.submitted();
// Costs two pointer tests where no task runs and the stream has no gate. Work on a stream that is
// being captured is not gated.
class GatedWork {
 public:
  explicit GatedWork(Stream& stream) {
    if (TaskWork* task = TaskWork::current(); task != nullptr) [[unlikely]]
      task->note(stream);
    if (stream.gate() != nullptr) [[unlikely]]
      enter(stream);
  }
  GatedWork(const GatedWork&) = delete;
  GatedWork& operator=(const GatedWork&) = delete;
  void submitted() {
    if (pass_ != nullptr) [[unlikely]]
      pass_->submitted();
  }

 private:
  void enter(Stream& stream);

  std::unique_ptr<SubmissionGate::Pass> pass_;
};

}  // namespace gpk::inline core
