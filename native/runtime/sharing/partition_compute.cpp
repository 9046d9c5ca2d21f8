#include "runtime/sharing/partition_compute.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "runtime/share.h"

namespace gpk::runtime {
namespace {

constexpr SharePpb kWhole = 1'000'000'000;

[[noreturn]] void fail(Error::Kind kind, const std::string& message) {
  throw Error(kind, "split_sms: " + message);
}

std::vector<SharePpb> checked_shares(std::size_t total_sms, std::size_t granule_sms,
                                     std::span<const double> shares) {
  if (total_sms == 0 || total_sms > 1'000'000)
    fail(Error::Kind::kValue, cat("total_sms is ", total_sms, ", expected 1 .. 1000000"));
  if (granule_sms == 0 || granule_sms > total_sms)
    fail(Error::Kind::kValue,
         cat("granule_sms is ", granule_sms, ", expected 1 .. total_sms ", total_sms));
  std::vector<SharePpb> checked;
  std::size_t num_parts = 0;
  SharePpb sum = 0;
  for (const double share : shares) {
    if (!(share >= 0.0 && share <= 1.0))
      fail(Error::Kind::kValue, cat("share is ", share, ", expected 0 .. 1"));
    checked.push_back(share_ppb(share, "share"));
    sum += checked.back();
    if (checked.back() > 0) ++num_parts;
  }
  // Thirds and the like sum to 1 with an error below one part per billion each.
  if (sum > kWhole + static_cast<SharePpb>(shares.size()))
    fail(Error::Kind::kValue, cat("shares add up to ", share_of_ppb(sum), ", expected at most 1"));
  if (num_parts > total_sms / granule_sms)
    fail(Error::Kind::kState, cat(num_parts, " parts, only ", total_sms / granule_sms,
                                  " groups of ", granule_sms, " SMs"));
  return checked;
}

// All in granules times kWhole * granule_sms, so that fractions compare exactly.
class Split {
 public:
  Split(std::size_t total_sms, std::size_t granule_sms, const std::vector<SharePpb>& shares)
      : total_(static_cast<std::int64_t>(total_sms)),
        granule_(static_cast<std::int64_t>(granule_sms)),
        shares_(shares),
        granules_(shares.size(), 0) {}

  std::vector<std::int64_t> granules() {
    const std::int64_t unit = kWhole * granule_;
    std::int64_t num_given = 0;
    std::int64_t due = 0;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      granules_[i] = shares_[i] * total_ / unit;
      num_given += granules_[i];
      due += shares_[i] * total_;
    }
    const std::int64_t wanted = std::min((due + unit / 2) / unit, total_ / granule_);
    give_to_largest_fractions(wanted - num_given);
    give_one_to_each();
    return granules_;
  }

  // Requested minus given, in SMs times kWhole.
  [[nodiscard]] std::int64_t lack(std::size_t i) const {
    return shares_[i] * total_ - granules_[i] * granule_ * kWhole;
  }

 private:
  void give_to_largest_fractions(std::int64_t count) {
    std::vector<std::size_t> order(shares_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [this](std::size_t a, std::size_t b) { return lack(a) > lack(b); });
    for (std::size_t i = 0; i < order.size() && count > 0; ++i, --count) ++granules_[order[i]];
  }

  void give_one_to_each() {
    std::int64_t num_free =
        total_ / granule_ - std::accumulate(granules_.begin(), granules_.end(), std::int64_t{0});
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      if (shares_[i] == 0 || granules_[i] > 0) continue;
      if (num_free > 0) {
        --num_free;
      } else {
        --granules_[richest()];
      }
      granules_[i] = 1;
    }
  }

  // The part with the largest surplus that can spare a granule.
  [[nodiscard]] std::size_t richest() const {
    std::size_t best = shares_.size();
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      if (granules_[i] < 2) continue;
      if (best == shares_.size() || lack(i) < lack(best)) best = i;
    }
    return best;
  }

  const std::int64_t total_;
  const std::int64_t granule_;
  const std::vector<SharePpb>& shares_;
  std::vector<std::int64_t> granules_;
};

}  // namespace

SmSplit split_sms(std::size_t total_sms, std::size_t granule_sms, std::span<const double> shares) {
  const std::vector<SharePpb> ppb = checked_shares(total_sms, granule_sms, shares);
  Split split(total_sms, granule_sms, ppb);
  const std::vector<std::int64_t> granules = split.granules();

  SmSplit result;
  result.unassigned_sms = total_sms;
  SharePpb sum = 0;
  std::size_t neediest = ppb.size();
  for (std::size_t i = 0; i < ppb.size(); ++i) {
    SmShare part;
    part.asked_share = shares[i];
    part.asked_sms = share_of_ppb(ppb[i]) * static_cast<double>(total_sms);
    part.given_sms = static_cast<std::size_t>(granules[i]) * granule_sms;
    result.unassigned_sms -= part.given_sms;
    result.parts.push_back(part);
    sum += ppb[i];
    if (ppb[i] > 0 && (neediest == ppb.size() || split.lack(i) > split.lack(neediest)))
      neediest = i;
  }
  const bool whole_device =
      neediest != ppb.size() && sum + static_cast<SharePpb>(ppb.size()) >= kWhole;
  if (whole_device && result.unassigned_sms > 0) {
    result.parts[neediest].given_sms += result.unassigned_sms;
    result.parts[neediest].takes_rest = true;
    result.unassigned_sms = 0;
  }
  for (SmShare& part : result.parts) {
    part.given_share = static_cast<double>(part.given_sms) / static_cast<double>(total_sms);
    result.max_error = std::max(result.max_error, std::abs(part.given_share - part.asked_share));
  }
  return result;
}

}  // namespace gpk::runtime
