// The admission rule as a pure function, and its decision as data and as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/share.h"

namespace gpk::runtime {

enum class RejectReason {
  kInsufficientMemory = 0,
  kInsufficientBandwidth = 1,
  kQueueFull = 2,
  kUnsatisfiableDependencies = 3,
  kCustom = 4,
};

[[nodiscard]] const char* to_string(RejectReason reason) noexcept;  // "InsufficientMemory", ...

// Why a task was not admitted, with the numbers. Also set for a queued one.
struct RejectReasonDetails {
  [[nodiscard]] std::string message() const;

  RejectReason reason_type = RejectReason::kCustom;
  std::size_t requested_memory_bytes = 0;
  std::size_t available_memory_bytes = 0;
  SharePpb requested_bandwidth_ppb = 0;
  SharePpb available_bandwidth_ppb = 0;
  std::size_t num_pending = 0;
  std::size_t max_pending = 0;
  std::string custom;  // the text of kCustom and kUnsatisfiableDependencies
};

enum class AdmissionVerdict { kAdmit, kReject, kQueue };

[[nodiscard]] const char* to_string(AdmissionVerdict verdict) noexcept;  // "Admit", ...

struct AdmissionDecision {
  static AdmissionDecision admitted(std::size_t memory_bytes = 0, SharePpb bandwidth_ppb = 0);
  static AdmissionDecision queued(std::size_t position = 0, std::int64_t estimated_wait_ns = 0);
  static AdmissionDecision rejected(RejectReasonDetails details);

  [[nodiscard]] bool is_admitted() const noexcept { return verdict == AdmissionVerdict::kAdmit; }
  [[nodiscard]] bool is_rejected() const noexcept { return verdict == AdmissionVerdict::kReject; }
  [[nodiscard]] bool is_queued() const noexcept { return verdict == AdmissionVerdict::kQueue; }
  // Set only for a rejected one.
  [[nodiscard]] std::optional<RejectReason> reject_reason() const noexcept;
  [[nodiscard]] double reserved_bandwidth() const noexcept {
    return share_of_ppb(reserved_bandwidth_ppb);
  }
  [[nodiscard]] double estimated_wait_ms() const noexcept {
    return static_cast<double>(estimated_wait_ns) / 1e6;
  }
  // One sentence: the decision and its reason.
  [[nodiscard]] std::string text() const;

  AdmissionVerdict verdict = AdmissionVerdict::kAdmit;
  std::size_t reserved_memory_bytes = 0;
  SharePpb reserved_bandwidth_ppb = 0;
  std::size_t queue_position = 0;  // tasks ahead: admitted and not ended, or queued before it
  std::int64_t estimated_wait_ns = 0;
  bool wait_is_measured = false;               // else estimated by decide_admission
  std::optional<RejectReasonDetails> details;  // why not admitted; empty when admitted
};

struct AdmissionConfig {
  // kValue when a bandwidth is negative or not a number.
  explicit AdmissionConfig(std::size_t max_memory_bytes_, double max_bandwidth = 1.0,
                           std::size_t max_pending_tasks_ = 1000, bool enable_best_effort_ = true);

  std::size_t max_memory_bytes;
  SharePpb max_bandwidth_ppb;
  std::size_t max_pending_tasks;
  // A task that does not fit now is queued, not rejected.
  bool enable_best_effort;
  // A task that can never fit is rejected even with best effort.
  bool reject_impossible = false;
};

struct AdmissionRequest {
  std::size_t memory_bytes = 0;
  SharePpb bandwidth_ppb = 0;
};

struct AdmissionUsage {
  std::size_t reserved_memory_bytes = 0;
  std::size_t available_memory_bytes = 0;
  SharePpb available_bandwidth_ppb = 0;
  std::size_t num_pending = 0;  // tasks admitted or queued, and not ended
  // Until the task's turn, once completions have been measured.
  std::optional<std::int64_t> measured_wait_ns;
};

// With the effective bandwidth: the one given, or memory / memory limit where that is 0. The
// estimates of tasks that fit together never add up to more than 1.
[[nodiscard]] AdmissionRequest admission_request(std::size_t memory_bytes, SharePpb bandwidth_ppb,
                                                 std::size_t memory_limit_bytes) noexcept;

// (1) pending >= max_pending_tasks -> Reject QueueFull.
// (2) memory above what is available -> Queue with best effort, else Reject InsufficientMemory.
// (3) bandwidth above what is available -> Queue with best effort, else Reject
// InsufficientBandwidth.
// (4) Admit, reserving both.
// Wait estimate of Queue: the measured one, or the reserved bytes at 100 MB/s.
[[nodiscard]] AdmissionDecision decide_admission(const AdmissionConfig& config,
                                                 const AdmissionUsage& usage,
                                                 const AdmissionRequest& request);

}  // namespace gpk::runtime
