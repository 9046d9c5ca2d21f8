// One submission of work to a stream: noted for the task that makes it, and through the gate that
// the stream may have.
#pragma once

#include <cstdint>
#include <memory>

#include "core/stream.h"
#include "core/task_work.h"

namespace gpk::inline core {

// What the work of a stream passes before it is submitted (device/launch_gate.h has the one there
// is). Thread safe.
class SubmissionGate {
 public:
  // Held around one submission.
  class Pass {
   public:
    virtual ~Pass() = default;
    // The driver has taken the work.
    virtual void submitted() = 0;
  };

  virtual ~SubmissionGate() = default;
  // Waits on the host until the work may be submitted.
  virtual std::unique_ptr<Pass> enter() = 0;
  // About what a slice of a long kernel of ours may take; 0: kernels are not cut.
  [[nodiscard]] virtual std::int64_t slice_ns() const noexcept = 0;
};

//   GatedWork work(*stream);
//   <the driver call>
//   work.submitted();
// Two pointer tests where no task runs and the stream has no gate. Work on a stream that is being
// captured passes.
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
