#include "runtime/pool/pool_stats.h"

#include <array>
#include <cstdio>

namespace gpk::runtime {
namespace {

std::string text(std::size_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), unit == 0 ? "%.0f %s" : "%.2f %s", value,
                kUnits[unit]);
  return buffer.data();
}

std::string limit_text(std::size_t bytes) { return bytes == 0 ? "none" : text(bytes); }

std::string describe(const std::string& what, const PoolOutOfMemory::Numbers& n) {
  std::string message = what + ": out of memory: asked " + text(n.asked_bytes);
  if (n.account_refused)
    return message + ", account '" +
           (n.account.name.empty() ? std::to_string(n.account.id) : n.account.name) + "' holds " +
           text(n.account.used_bytes) + " of its limit of " + limit_text(n.account.limit_bytes);
  message += ", used " + text(n.used_bytes) + ", cached " + text(n.cached_bytes) + ", reserved " +
             text(n.reserved_bytes) + ", largest free " + text(n.largest_free_bytes) +
             ", evicted " + text(n.evicted_bytes) + ", limit " + limit_text(n.limit_bytes) +
             ", device free " + text(n.device_free_bytes);
  return message;
}

}  // namespace

PoolOutOfMemory::PoolOutOfMemory(const std::string& what, const Numbers& numbers)
    : Error(Kind::kMemory, describe(what, numbers)), numbers_(numbers) {}

}  // namespace gpk::runtime
