#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "jit/compiler.h"

namespace gpk::jit {
namespace {

using Version = std::pair<int, int>;

struct TargetVersion {
  std::string_view target;
  Version oldest;
};

// Determined with ptxas (13.0 and 13.4): the oldest ".version" it accepts for each target.
constexpr std::array<TargetVersion, 17> kOldest{{
    {"sm_80", {7, 0}},
    {"sm_86", {7, 1}},
    {"sm_87", {7, 4}},
    {"sm_88", {9, 0}},
    {"sm_89", {7, 8}},
    {"sm_90", {7, 8}},
    {"sm_90a", {8, 0}},
    {"sm_100", {8, 6}},
    {"sm_100a", {8, 6}},
    {"sm_103", {8, 8}},
    {"sm_103a", {8, 8}},
    {"sm_110", {9, 0}},
    {"sm_110a", {9, 0}},
    {"sm_120", {8, 7}},
    {"sm_120a", {8, 7}},
    {"sm_121", {8, 8}},
    {"sm_121a", {8, 8}},
}};

// Position and length of the word after a directive at the start of a line.
std::optional<std::pair<std::size_t, std::size_t>> operand(std::string_view ptx,
                                                           std::string_view directive) {
  std::size_t at = 0;
  while (true) {
    at = ptx.find(directive, at);
    if (at == std::string_view::npos) return std::nullopt;
    if (at == 0 || ptx[at - 1] == '\n') break;
    at += directive.size();
  }
  at += directive.size();
  while (at < ptx.size() && (ptx[at] == ' ' || ptx[at] == '\t')) ++at;
  const std::size_t end = std::min(ptx.find_first_of(" \t\r\n,", at), ptx.size());
  return std::pair(at, end - at);
}

std::optional<Version> parse_version(std::string_view text) {
  Version out;
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto major = std::from_chars(begin, end, out.first);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  if (std::from_chars(major.ptr + 1, end, out.second).ec != std::errc()) return std::nullopt;
  return out;
}

// Features our kernels use that are newer than their target.
struct Feature {
  std::string_view text;
  Version since;
};
constexpr Feature kFeatures[] = {
    {".L2::", {7, 4}},                           // prefetch sizes for the L2
    {"barrier.cluster.arrive.release", {8, 0}},  // memory ordering qualifiers
    {"barrier.cluster.wait.acquire", {8, 0}},
};

// Hints newer than the oldest version above; they do not affect the code.
constexpr std::string_view kNewHints[] = {".pragma \"used_bytes_mask "};  // 8.3

std::string without_new_hints(const std::string& ptx) {
  std::string kept;
  kept.reserve(ptx.size());
  for (std::size_t at = 0; at < ptx.size();) {
    const std::size_t end = std::min(ptx.find('\n', at), ptx.size() - 1) + 1;
    const std::string_view line = std::string_view(ptx).substr(at, end - at);
    const std::string_view text = trim(line);
    const bool is_hint = std::any_of(std::begin(kNewHints), std::end(kNewHints),
                                     [&](std::string_view hint) { return text.starts_with(hint); });
    if (!is_hint) kept += line;
    at = end;
  }
  return kept;
}

}  // namespace

std::string lower_ptx_version(std::string ptx) {
  ptx = without_new_hints(ptx);
  const auto version = operand(ptx, ".version");
  const auto target = operand(ptx, ".target");
  if (!version || !target) return ptx;
  const std::string_view text = ptx;
  const std::string_view name = text.substr(target->first, target->second);
  const auto now = parse_version(text.substr(version->first, version->second));
  for (const TargetVersion& row : kOldest) {
    if (row.target != name || !now) continue;
    Version oldest = row.oldest;
    for (const Feature& feature : kFeatures)
      if (text.find(feature.text) != std::string_view::npos)
        oldest = std::max(oldest, feature.since);
    if (*now <= oldest) return ptx;
    return ptx.replace(version->first, version->second, cat(oldest.first, ".", oldest.second));
  }
  return ptx;
}

}  // namespace gpk::jit
