// Long kernels in slices, so that others get their turn in between.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace gpk::runtime {

// `total_tiles` cut into nearly equal runs of whole tiles.
struct SlicePlan {
  std::uint64_t total_tiles = 0;
  std::uint64_t num_slices = 0;

  struct Range {
    std::uint64_t first_tile;
    std::uint64_t num_tiles;
  };
  // kValue when index >= num_slices. Ranges follow one another and differ by a tile at most.
  [[nodiscard]] Range slice(std::uint64_t index) const;
};

// The fewest slices of at most `max_slice_ns` each, given what a tile costs; a tile that alone
// costs more is a slice by itself. A cost of 0 is unknown: one slice. No tiles: no slices. kValue
// when a time is not finite or negative, or max_slice_ns is 0.
[[nodiscard]] SlicePlan plan_slices(std::uint64_t total_tiles, double tile_cost_ns,
                                    double max_slice_ns);

struct SliceConfig {
  std::uint64_t max_items_per_slice = 65536;
  double max_duration_ms = 1.0;
  std::uint64_t min_slices = 1;
  std::uint64_t max_slices = 256;
  // Kernels whose slices took longer than max_duration_ms are cut finer when submitted again.
  bool adaptive = true;
};

struct SliceInfo {
  std::uint64_t kernel_id = 0;  // from 1, of this submission
  std::uint64_t kernel_handle = 0;
  std::uint64_t slice_index = 0;
  std::uint64_t total_slices = 0;
  std::uint64_t offset_items = 0;
  std::uint64_t num_items = 0;
  std::uint32_t grid_x = 0;  // blocks for num_items
  std::array<std::uint32_t, 3> block{256, 1, 1};
  std::uint32_t shared_mem_bytes = 0;
  std::string task_id;  // empty: none
  int priority = 0;
  [[nodiscard]] bool is_last() const noexcept { return slice_index + 1 == total_slices; }
};

struct SliceStats {
  std::uint64_t num_kernels = 0;  // submitted
  std::uint64_t num_kernels_completed = 0;
  std::uint64_t num_slices = 0;  // submitted
  std::uint64_t num_slices_completed = 0;
  std::uint64_t pending_slices = 0;
  std::size_t pending_kernels = 0;
  double total_ms = 0.0;
  double max_ms = 0.0;
  [[nodiscard]] double avg_ms() const noexcept {
    return num_slices_completed == 0 ? 0.0 : total_ms / static_cast<double>(num_slices_completed);
  }
};

// Thread safe. Kernels of the highest priority take turns, one slice each; lower ones wait.
class SliceScheduler {
 public:
  // kValue when a limit is 0, min_slices > max_slices, or the duration is not above 0.
  explicit SliceScheduler(SliceConfig config = {});

  // Returns the number of slices: total_items / max_items_per_slice, within min and max slices, and
  // never more than there are items. kValue for no items or a block without threads.
  std::uint64_t submit(std::uint64_t kernel_handle, std::uint64_t total_items,
                       std::array<std::uint32_t, 3> block = {256, 1, 1},
                       std::uint32_t shared_mem_bytes = 0);
  std::uint64_t submit_for_task(const std::string& task_id, std::uint64_t kernel_handle,
                                std::uint64_t total_items,
                                std::array<std::uint32_t, 3> block = {256, 1, 1},
                                std::uint32_t shared_mem_bytes = 0, int priority = 0);

  // The next slice to run, or nothing. It counts as pending until complete_slice().
  std::optional<SliceInfo> get_next_slice();
  // The slice handed out first among those not completed took `ms`; the next kernel has its turn.
  // False when none is out; kValue when `ms` is not finite or negative.
  bool complete_slice(double ms);

  [[nodiscard]] std::uint64_t pending_slices() const;
  [[nodiscard]] std::size_t pending_kernels() const;
  [[nodiscard]] SliceStats stats() const;
  void clear();  // forgets kernels, statistics and what was learnt
  [[nodiscard]] const SliceConfig& config() const noexcept { return config_; }

 private:
  struct Kernel {
    SliceInfo next;  // the slice that is handed out next
    SlicePlan plan;
    std::uint64_t num_completed = 0;
  };
  using Turn = std::list<Kernel>;  // the front has its turn

  [[nodiscard]] std::uint64_t count_slices(std::uint64_t kernel_handle,
                                           std::uint64_t total_items) const;
  void learn(const SliceInfo& slice, double ms);

  const SliceConfig config_;
  mutable std::mutex mutex_;
  std::uint64_t next_id_ = 1;
  std::map<std::int64_t, Turn> turns_;  // by -priority; kernels with slices not yet completed
  std::deque<SliceInfo> out_;           // handed out, oldest first
  std::map<std::uint64_t, double> ms_per_item_;  // by kernel handle: the running mean
  SliceStats stats_;
};

}  // namespace gpk::runtime
