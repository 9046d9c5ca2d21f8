// Decides by class whether a task's promise can be kept, and keeps the reservations behind it.
//
//   QosPolicyEvaluator evaluator(8 * kGiB);
//   const QosEvaluation evaluation = evaluator.admit(QosTaskMeta::guaranteed("a", "a", kGiB));
//   ...
//   evaluator.release(evaluation);
#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include "runtime/scheduler/qos.h"
#include "runtime/share.h"

namespace gpk::runtime {

enum class QosDecision { kAdmit, kThrottle, kQueue, kReject };

[[nodiscard]] const char* to_string(QosDecision decision) noexcept;  // "Admit", "Throttle", ...

struct QosEvaluation {
  [[nodiscard]] bool is_admitted() const noexcept { return decision == QosDecision::kAdmit; }
  [[nodiscard]] bool is_throttled() const noexcept { return decision == QosDecision::kThrottle; }
  [[nodiscard]] bool is_queued() const noexcept { return decision == QosDecision::kQueue; }
  [[nodiscard]] bool is_rejected() const noexcept { return decision == QosDecision::kReject; }
  [[nodiscard]] std::string text() const;

  QosDecision decision = QosDecision::kReject;
  QosClass qos_class = QosClass::kBestEffort;
  std::size_t reserved_memory_bytes = 0;
  double reserved_bandwidth = 0.0;
  std::string reason;  // why, in words; for every decision
};

struct QosStats {
  std::size_t total_memory_bytes;
  double total_bandwidth;
  std::size_t guaranteed_memory_bytes;
  double guaranteed_bandwidth;
  std::size_t burstable_memory_bytes;
  std::size_t best_effort_queue;
  std::size_t available_memory_bytes;
  double available_bandwidth;
};

// Thread safe. Reservations never pass the totals.
class QosPolicyEvaluator {
 public:
  explicit QosPolicyEvaluator(std::size_t total_memory_bytes, double total_bandwidth = 1.0);

  // Guaranteed: its limit of memory and its request of bandwidth fit -> Admit, reserving the memory
  //   limit and as much of the bandwidth limit as is left; else Reject.
  // Burstable: the requests do not fit -> Reject; a limit is above what is left -> Throttle; else
  //   Admit, reserving the memory request.
  // BestEffort: some memory and some bandwidth left -> Admit, reserving nothing; else Queue.
  [[nodiscard]] QosEvaluation evaluate(const QosTaskMeta& task) const;

  // Makes the reservation of an evaluation: Admit reserves, Queue counts, others do nothing.
  // kState when it no longer fits (others came first).
  void reserve(const QosEvaluation& evaluation);
  // evaluate and reserve in one step.
  QosEvaluation admit(const QosTaskMeta& task);

  // Gives back. kValue when it is more than the class holds. Of BestEffort it ends one wait, if
  // there is one.
  void release(QosClass qos, std::size_t memory_bytes, double bandwidth);
  // Exactly what `evaluation` reserved.
  void release(const QosEvaluation& evaluation);

  [[nodiscard]] QosStats stats() const;
  void reset();

 private:
  QosEvaluation evaluate_locked(const QosTaskMeta& task) const;
  QosEvaluation evaluate_guaranteed(const QosTaskMeta& task) const;
  QosEvaluation evaluate_burstable(const QosTaskMeta& task) const;
  QosEvaluation evaluate_best_effort() const;
  void reserve_locked(const QosEvaluation& evaluation);
  [[nodiscard]] std::size_t available_bytes() const noexcept;
  [[nodiscard]] SharePpb available_ppb() const noexcept;

  const std::size_t total_bytes_;
  const SharePpb total_ppb_;
  mutable std::mutex mutex_;
  std::size_t guaranteed_bytes_ = 0;
  SharePpb guaranteed_ppb_ = 0;
  std::size_t burstable_bytes_ = 0;
  std::size_t best_effort_queue_ = 0;
};

}  // namespace gpk::runtime
