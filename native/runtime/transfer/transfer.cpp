#include "runtime/transfer/transfer.h"

namespace gpk::runtime {
namespace {

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

const char* to_string(TransferType type) noexcept {
  switch (type) {
    case TransferType::kH2D: return "h2d";
    case TransferType::kD2H: return "d2h";
    case TransferType::kD2D: return "d2d";
  }
  return "?";
}

const char* to_string(TransferState state) noexcept {
  switch (state) {
    case TransferState::kQueued: return "Queued";
    case TransferState::kInProgress: return "InProgress";
    case TransferState::kCompleted: return "Completed";
    case TransferState::kFailed: return "Failed";
    case TransferState::kCancelled: return "Cancelled";
  }
  return "?";
}

double TransferOp::wait_time_s() const noexcept {
  return started_ns < 0 ? 0.0 : seconds(started_ns - queued_ns);
}

double TransferOp::duration_s() const noexcept {
  return started_ns < 0 || finished_ns < 0 ? 0.0 : seconds(finished_ns - started_ns);
}

double TransferOp::bandwidth_gb_s() const noexcept {
  const std::int64_t ns = finished_ns - started_ns;
  if (state != TransferState::kCompleted || ns <= 0) return 0.0;
  return static_cast<double>(size_bytes) / static_cast<double>(ns);
}

}  // namespace gpk::runtime
