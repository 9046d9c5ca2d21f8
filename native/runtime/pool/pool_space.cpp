#include "runtime/pool/pool_space.h"

#include <algorithm>
#include <limits>
#include <span>

namespace gpk::runtime {

PoolSpace::PoolSpace(PoolDevice& device, std::size_t chunk_bytes, std::size_t region_bytes,
                     std::size_t quota_bytes)
    : device_(device),
      can_map_(device.can_map()),
      chunk_bytes_(chunk_bytes),
      region_bytes_(region_bytes),
      quota_bytes_(quota_bytes) {}

PoolSpace::~PoolSpace() {
  for (const auto& region : regions_) {
    if (!can_map_) {
      device_.free(region->address, region->bytes);
      continue;
    }
    for (std::size_t i = 0; i < region->handles.size();) {
      std::size_t end = i;
      while (end < region->handles.size() && region->handles[end] != 0) ++end;
      if (end > i) unmap(*region, region->address + i * chunk_bytes_, end - i);
      i = end + 1;
    }
    device_.release(region->address, region->bytes);
  }
  destroy_spare(0);
}

std::size_t PoolSpace::num_creatable() const noexcept {
  if (quota_bytes_ == 0) return std::numeric_limits<std::size_t>::max() / chunk_bytes_;
  return (quota_bytes_ - reserved_bytes_) / chunk_bytes_;
}

bool PoolSpace::set_quota(std::size_t quota_bytes) noexcept {
  if (quota_bytes != 0 && quota_bytes < reserved_bytes_) return false;
  quota_bytes_ = quota_bytes;
  return true;
}

void PoolSpace::count(std::size_t bytes) noexcept {
  ++num_created_;
  reserved_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, reserved_bytes_);
}

bool PoolSpace::ensure_spare(std::size_t num) {
  // A large request that cannot be satisfied must not drain the device first.
  if (num > spare_.size() + 1 &&
      num > device_.free_bytes() / chunk_bytes_ + reserved_bytes_ / chunk_bytes_) {
    refused_ = true;
    return false;
  }
  while (spare_.size() < num) {
    if (num_creatable() == 0) return false;
    if (spare_.capacity() <= num_handles_)  // so that unmap() never allocates
      spare_.reserve(2 * num_handles_ + 16);
    const PoolDevice::Handle handle = device_.create(chunk_bytes_);
    refused_ = handle == 0;
    if (refused_) return false;
    ++num_handles_;
    spare_.push_back(handle);
    count(chunk_bytes_);
  }
  return true;
}

std::size_t PoolSpace::destroy_spare(std::size_t num) noexcept {
  std::size_t bytes = 0;
  for (; spare_.size() > num; spare_.pop_back()) {
    device_.destroy(spare_.back());
    --num_handles_;
    reserved_bytes_ -= chunk_bytes_;
    bytes += chunk_bytes_;
  }
  return bytes;
}

PoolRegion* PoolSpace::add_allocation(std::size_t bytes) {
  if (quota_bytes_ != 0 && bytes > quota_bytes_ - reserved_bytes_) return nullptr;
  auto region = std::make_unique<PoolRegion>();
  region->bytes = bytes;
  regions_.reserve(regions_.size() + 1);
  region->address = device_.allocate(bytes);
  refused_ = region->address == 0;
  if (refused_) return nullptr;
  count(bytes);
  regions_.push_back(std::move(region));
  return regions_.back().get();
}

PoolRegion* PoolSpace::add_region(std::size_t bytes) {
  if (!can_map_) return add_allocation(num_chunks(bytes) * chunk_bytes_);
  auto region = std::make_unique<PoolRegion>();
  region->bytes = std::max(num_chunks(bytes) * chunk_bytes_, region_bytes_);
  regions_.reserve(regions_.size() + 1);
  region->address = device_.reserve(region->bytes, chunk_bytes_);
  if (region->address == 0) {  // address space may be short too (a process limit)
    region->bytes = num_chunks(bytes) * chunk_bytes_;
    region->address = device_.reserve(region->bytes, chunk_bytes_);
  }
  if (region->address == 0) return nullptr;
  try {
    region->handles.assign(region->bytes / chunk_bytes_, 0);
  } catch (...) {
    device_.release(region->address, region->bytes);
    throw;
  }
  regions_.push_back(std::move(region));
  return regions_.back().get();
}

void PoolSpace::remove_region(PoolRegion* region) noexcept {
  if (can_map_) {
    device_.release(region->address, region->bytes);
  } else {
    device_.free(region->address, region->bytes);
    reserved_bytes_ -= region->bytes;
  }
  std::erase_if(regions_, [region](const auto& other) { return other.get() == region; });
}

bool PoolSpace::map(PoolRegion& region, PoolDevice::Address address, std::size_t num) {
  const std::span<const PoolDevice::Handle> handles(spare_.data() + (spare_.size() - num), num);
  if (!device_.map(address, handles, chunk_bytes_)) return false;
  const std::size_t first = (address - region.address) / chunk_bytes_;
  std::copy(handles.begin(), handles.end(),
            region.handles.begin() + static_cast<std::ptrdiff_t>(first));
  spare_.resize(spare_.size() - num);
  return true;
}

void PoolSpace::unmap(PoolRegion& region, PoolDevice::Address address, std::size_t num) noexcept {
  device_.unmap(address, num * chunk_bytes_);
  const std::size_t first = (address - region.address) / chunk_bytes_;
  for (std::size_t i = first; i < first + num; ++i) {
    spare_.push_back(region.handles[i]);
    region.handles[i] = 0;
  }
}

}  // namespace gpk::runtime
