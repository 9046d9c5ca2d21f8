// Admission control: who may take memory and bandwidth now, who waits, who is turned away.
//
//   AdmissionController controller(AdmissionConfig(kGiB));
//   const AdmissionDecision decision = controller.try_admit("job", 600 << 20, 0.2);
//   ...
//   controller.release("job");
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/clock.h"
#include "runtime/scheduler/admission_decision.h"
#include "runtime/scheduler/admission_rate.h"

namespace gpk::runtime {

// Thread safe. The rule is decide_admission. Reservations never pass the limits, and release gives
// back exactly what the task's admission reserved.
class AdmissionController {
 public:
  explicit AdmissionController(
      AdmissionConfig config, std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>());

  // Decides and takes the effect. A queued id may be tried again, with the same or new figures: it
  // keeps its position. kValue when the id is admitted already or bandwidth is not a share >= 0.
  // A bandwidth of 0 is estimated from the memory.
  AdmissionDecision try_admit(std::string_view task_id, std::size_t memory_bytes, double bandwidth);

  // What try_admit would answer to a new task.
  [[nodiscard]] AdmissionDecision evaluate(std::size_t memory_bytes, double bandwidth) const;

  // The task has ended: gives back its reservation, or its place in the queue. kValue when unknown.
  void release(std::string_view task_id);

  // Tries the queued tasks again in their order; those after one that still does not fit have
  // their chance too. Returns who was admitted.
  std::vector<std::pair<std::string, AdmissionDecision>> promote();

  [[nodiscard]] AdmissionStats stats() const;
  // The ids that wait, in order.
  [[nodiscard]] std::vector<std::string> queued_ids() const;
  [[nodiscard]] const AdmissionConfig& config() const noexcept { return config_; }

 private:
  struct Entry {
    AdmissionRequest request;
    std::uint64_t ticket;  // order of arrival
    std::size_t reserved_bytes = 0;
    SharePpb reserved_ppb = 0;
    bool admitted = false;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  AdmissionDecision decide(const AdmissionRequest& request, std::size_t num_ahead,
                           std::size_t num_queued_ahead) const;
  void hold(Entry& entry, const AdmissionDecision& decision);

  const AdmissionConfig config_;
  const std::shared_ptr<const Clock> clock_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::map<std::uint64_t, Entries::iterator> queue_;  // by ticket
  CompletionRate rate_;
  std::uint64_t next_ticket_ = 0;
  std::size_t reserved_bytes_ = 0;
  SharePpb reserved_ppb_ = 0;
  std::size_t num_admitted_ = 0;
  std::size_t num_rejected_ = 0;
  std::size_t num_queued_ = 0;
};

}  // namespace gpk::runtime
