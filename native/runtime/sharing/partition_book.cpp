#include "runtime/sharing/partition_book.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace gpk::runtime {
namespace {

constexpr SharePpb kWhole = 1'000'000'000;

[[noreturn]] void fail(Error::Kind kind, const std::string& message) {
  throw Error(kind, "partition: " + message);
}

SharePpb checked_share(double share, const char* what) {
  if (!(share >= 0.0 && share <= 1.0))
    fail(Error::Kind::kValue, cat(what, " is ", share, ", expected 0 .. 1"));
  return share_ppb(share, what);
}

void check_left(SharePpb asked, SharePpb left, const char* what) {
  if (asked > left)
    fail(Error::Kind::kState,
         cat(what, " is ", share_of_ppb(asked), ", only ", share_of_ppb(left), " is left"));
}

}  // namespace

void PartitionBook::add(const PartitionShare& share) {
  if (share.name.empty()) fail(Error::Kind::kValue, "name is empty");
  Entry entry{share, checked_share(share.compute, "compute"),
              checked_share(share.bandwidth, "bandwidth")};
  const std::lock_guard lock(mutex_);
  std::size_t memory_left = total_memory_bytes_;
  SharePpb compute_left = kWhole;
  SharePpb bandwidth_left = kWhole;
  for (const Entry& other : entries_) {
    if (other.share.name == share.name)
      fail(Error::Kind::kValue, cat("'", share.name, "' already exists"));
    memory_left -= other.share.memory_bytes;
    compute_left -= other.compute_ppb;
    bandwidth_left -= other.bandwidth_ppb;
  }
  if (share.memory_bytes > memory_left)
    fail(Error::Kind::kState,
         cat("memory of '", share.name, "' is ", bytes_text(share.memory_bytes), ", only ",
             bytes_text(memory_left), " of ", bytes_text(total_memory_bytes_), " are left"));
  check_left(entry.compute_ppb, compute_left, "compute");
  check_left(entry.bandwidth_ppb, bandwidth_left, "bandwidth");
  entries_.push_back(std::move(entry));
}

bool PartitionBook::remove(std::string_view name) noexcept {
  const std::lock_guard lock(mutex_);
  return std::erase_if(entries_, [&](const Entry& e) { return e.share.name == name; }) > 0;
}

std::vector<PartitionShare> PartitionBook::shares() const {
  const std::lock_guard lock(mutex_);
  std::vector<PartitionShare> shares;
  for (const Entry& entry : entries_) shares.push_back(entry.share);
  return shares;
}

}  // namespace gpk::runtime
