// One copy between host and device: its direction, its state and its times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpk::runtime {

using TransferId = std::uint64_t;  // from 1; 0: none

enum class TransferType { kH2D, kD2H, kD2D };
enum class TransferState { kQueued, kInProgress, kCompleted, kFailed, kCancelled };
inline constexpr int kNumTransferTypes = 3;

[[nodiscard]] const char* to_string(TransferType type) noexcept;  // "h2d", "d2h", "d2d"
[[nodiscard]] const char* to_string(TransferState state) noexcept;

struct TransferOp {
  TransferId id = 0;
  TransferType type = TransferType::kH2D;
  TransferState state = TransferState::kQueued;
  std::uint64_t src = 0;
  std::uint64_t dst = 0;
  std::size_t size_bytes = 0;
  int priority = 0;
  std::int64_t queued_ns = 0;
  std::int64_t started_ns = -1;   // -1: not yet
  std::int64_t finished_ns = -1;  // -1: not yet
  std::string error;

  // Seconds from enqueue to start, and from start to end; 0 while not known.
  [[nodiscard]] double wait_time_s() const noexcept;
  [[nodiscard]] double duration_s() const noexcept;
  // 10^9 bytes per second; 0 while not known.
  [[nodiscard]] double bandwidth_gb_s() const noexcept;
};

}  // namespace gpk::runtime
