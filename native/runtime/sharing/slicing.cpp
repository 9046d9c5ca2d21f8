#include "runtime/sharing/slicing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/error.h"

namespace gpk::runtime {
namespace {

constexpr double kMeanWeight = 0.25;  // of the newest slice in the running mean

[[noreturn]] void throw_value(const std::string& message) {
  throw Error(Error::Kind::kValue, message);
}

}  // namespace

SlicePlan::Range SlicePlan::slice(std::uint64_t index) const {
  if (index >= num_slices)
    throw_value("SlicePlan: no slice " + std::to_string(index) + " of " +
                std::to_string(num_slices));
  const std::uint64_t even = total_tiles / num_slices;
  const std::uint64_t longer = total_tiles % num_slices;  // the first ones have a tile more
  return {index * even + std::min(index, longer), even + (index < longer ? 1 : 0)};
}

SlicePlan plan_slices(std::uint64_t total_tiles, double tile_cost_ns, double max_slice_ns) {
  if (!std::isfinite(tile_cost_ns) || tile_cost_ns < 0.0 || !std::isfinite(max_slice_ns) ||
      max_slice_ns <= 0.0)
    throw_value("plan_slices: needs tile_cost_ns >= 0 and max_slice_ns > 0, got " +
                std::to_string(tile_cost_ns) + " and " + std::to_string(max_slice_ns));
  if (total_tiles == 0) return {};
  if (tile_cost_ns == 0.0) return {total_tiles, 1};
  const double fit = std::floor(max_slice_ns / tile_cost_ns);
  if (fit >= static_cast<double>(total_tiles)) return {total_tiles, 1};
  const std::uint64_t tiles_per_slice = fit < 1.0 ? 1 : static_cast<std::uint64_t>(fit);
  return {total_tiles, (total_tiles - 1) / tiles_per_slice + 1};
}

SliceScheduler::SliceScheduler(SliceConfig config) : config_(config) {
  if (config.max_items_per_slice == 0 || config.min_slices == 0 ||
      config.min_slices > config.max_slices)
    throw_value(
        "SliceConfig: needs max_items_per_slice >= 1 and 1 <= min_slices <= max_slices, got " +
        std::to_string(config.max_items_per_slice) + ", " + std::to_string(config.min_slices) +
        " and " + std::to_string(config.max_slices));
  if (!std::isfinite(config.max_duration_ms) || config.max_duration_ms <= 0.0)
    throw_value("SliceConfig: max_duration_ms must be finite and above 0, got " +
                std::to_string(config.max_duration_ms));
}

std::uint64_t SliceScheduler::submit(std::uint64_t kernel_handle, std::uint64_t total_items,
                                     std::array<std::uint32_t, 3> block,
                                     std::uint32_t shared_mem_bytes) {
  return submit_for_task("", kernel_handle, total_items, block, shared_mem_bytes, 0);
}

std::uint64_t SliceScheduler::submit_for_task(const std::string& task_id,
                                              std::uint64_t kernel_handle,
                                              std::uint64_t total_items,
                                              std::array<std::uint32_t, 3> block,
                                              std::uint32_t shared_mem_bytes, int priority) {
  if (total_items == 0) throw_value("SliceScheduler: total_items must be at least 1, got 0");
  if (block[0] == 0 || block[1] == 0 || block[2] == 0)
    throw_value("SliceScheduler: a block needs threads, got a dimension of 0");
  const std::lock_guard lock(mutex_);
  Kernel kernel;
  kernel.plan = {total_items, count_slices(kernel_handle, total_items)};
  kernel.next.kernel_id = next_id_++;
  kernel.next.kernel_handle = kernel_handle;
  kernel.next.total_slices = kernel.plan.num_slices;
  kernel.next.block = block;
  kernel.next.shared_mem_bytes = shared_mem_bytes;
  kernel.next.task_id = task_id;
  kernel.next.priority = priority;
  const std::uint64_t num_slices = kernel.plan.num_slices;
  turns_[-static_cast<std::int64_t>(priority)].push_back(std::move(kernel));
  ++stats_.num_kernels;
  stats_.num_slices += num_slices;
  stats_.pending_slices += num_slices;
  ++stats_.pending_kernels;
  return num_slices;
}

std::uint64_t SliceScheduler::count_slices(std::uint64_t kernel_handle,
                                           std::uint64_t total_items) const {
  std::uint64_t wanted = total_items / config_.max_items_per_slice;
  const auto learnt = ms_per_item_.find(kernel_handle);
  if (config_.adaptive && learnt != ms_per_item_.end()) {
    const double total_ms = learnt->second * static_cast<double>(total_items);
    const double by_time = std::ceil(total_ms / config_.max_duration_ms);
    if (by_time > static_cast<double>(wanted))
      wanted = by_time < static_cast<double>(config_.max_slices)
                   ? static_cast<std::uint64_t>(by_time)
                   : config_.max_slices;
  }
  return std::min(std::clamp(wanted, config_.min_slices, config_.max_slices), total_items);
}

std::optional<SliceInfo> SliceScheduler::get_next_slice() {
  const std::lock_guard lock(mutex_);
  for (auto& [priority, turn] : turns_) {
    const auto kernel = std::find_if(turn.begin(), turn.end(), [](const Kernel& one) {
      return one.next.slice_index < one.plan.num_slices;
    });
    if (kernel == turn.end()) continue;
    SliceInfo slice = kernel->next;
    const SlicePlan::Range range = kernel->plan.slice(slice.slice_index);
    slice.offset_items = range.first_tile;
    slice.num_items = range.num_tiles;
    const std::uint64_t threads = std::uint64_t{slice.block[0]} * slice.block[1] * slice.block[2];
    slice.grid_x = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        (slice.num_items - 1) / threads + 1, std::numeric_limits<std::int32_t>::max()));
    out_.push_back(slice);
    ++kernel->next.slice_index;
    return slice;
  }
  return std::nullopt;
}

bool SliceScheduler::complete_slice(double ms) {
  if (!std::isfinite(ms) || ms < 0.0)
    throw_value("SliceScheduler: ms must be finite and not negative, got " + std::to_string(ms));
  const std::lock_guard lock(mutex_);
  if (out_.empty()) return false;
  const SliceInfo slice = std::move(out_.front());
  out_.pop_front();
  learn(slice, ms);
  const auto turn = turns_.find(-static_cast<std::int64_t>(slice.priority));
  Turn& kernels = turn->second;
  const auto kernel = std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& one) {
    return one.next.kernel_id == slice.kernel_id;
  });
  if (++kernel->num_completed == kernel->plan.num_slices) {
    kernels.erase(kernel);
    if (kernels.empty()) turns_.erase(turn);
    ++stats_.num_kernels_completed;
    --stats_.pending_kernels;
  } else {
    kernels.splice(kernels.end(), kernels, kernel);  // behind the others
  }
  return true;
}

void SliceScheduler::learn(const SliceInfo& slice, double ms) {
  --stats_.pending_slices;
  ++stats_.num_slices_completed;
  stats_.total_ms += ms;
  stats_.max_ms = std::max(stats_.max_ms, ms);
  const double per_item = ms / static_cast<double>(slice.num_items);
  const auto [mean, is_new] = ms_per_item_.try_emplace(slice.kernel_handle, per_item);
  if (!is_new) mean->second += kMeanWeight * (per_item - mean->second);
}

std::uint64_t SliceScheduler::pending_slices() const {
  const std::lock_guard lock(mutex_);
  return stats_.pending_slices;
}

std::size_t SliceScheduler::pending_kernels() const {
  const std::lock_guard lock(mutex_);
  return stats_.pending_kernels;
}

SliceStats SliceScheduler::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void SliceScheduler::clear() {
  const std::lock_guard lock(mutex_);
  turns_.clear();
  out_.clear();
  ms_per_item_.clear();
  stats_ = {};
}

}  // namespace gpk::runtime
