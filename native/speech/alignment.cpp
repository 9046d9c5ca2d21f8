#include "speech/alignment.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpk::speech {

std::vector<std::pair<std::size_t, std::size_t>> cheapest_path(const CostMatrix& costs) {
  const std::size_t n = costs.rows;
  const std::size_t m = costs.columns;
  if (n == 0 || m == 0) return {};
  constexpr double kFar = std::numeric_limits<double>::infinity();
  enum class From : std::uint8_t { kBoth, kRow, kColumn };
  std::vector<From> from(n * m);
  std::vector<double> above(m + 1, kFar);  // costs up to the row above; [0] is left of the matrix
  std::vector<double> here(m + 1, kFar);
  above[0] = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    here[0] = kFar;
    for (std::size_t j = 0; j < m; ++j) {
      const double both = above[j];
      const double row = above[j + 1];
      const double column = here[j];
      From best = From::kColumn;
      double cost = column;
      if (both < row && both < column) {
        best = From::kBoth;
        cost = both;
      } else if (row < both && row < column) {
        best = From::kRow;
        cost = row;
      }
      from[i * m + j] = best;
      here[j + 1] = costs.values[i * m + j] + cost;
    }
    std::swap(above, here);
  }
  std::vector<std::pair<std::size_t, std::size_t>> path;
  for (std::size_t i = n - 1, j = m - 1;;) {
    path.emplace_back(i, j);
    if (i == 0 && j == 0) break;
    const From step = from[i * m + j];
    if (step != From::kColumn) --i;
    if (step != From::kRow) --j;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<float> median_filter(std::span<const float> values, std::size_t width) {
  std::vector<float> result(values.begin(), values.end());
  const auto half = static_cast<std::int64_t>(width / 2);
  const auto count = static_cast<std::int64_t>(values.size());
  if (width < 2 || count <= half) return result;
  std::vector<float> window(width);
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t k = -half; k <= half; ++k) {
      std::int64_t at = i + k;
      if (at < 0) at = -at;
      if (at >= count) at = 2 * (count - 1) - at;
      window[static_cast<std::size_t>(k + half)] = values[static_cast<std::size_t>(at)];
    }
    std::nth_element(window.begin(), window.begin() + half, window.end());
    result[static_cast<std::size_t>(i)] = window[static_cast<std::size_t>(half)];
  }
  return result;
}

std::vector<std::size_t> align_rows(std::span<const float> weights, std::size_t heads,
                                    std::size_t tokens, std::size_t frames, std::size_t skipped,
                                    std::size_t dropped, std::size_t median_width) {
  if (tokens <= skipped + dropped || frames == 0 || heads == 0) return {};
  CostMatrix costs{tokens - skipped - dropped, frames, {}};
  costs.values.assign(costs.rows * frames, 0.0);
  std::vector<float> normed(tokens * frames);
  for (std::size_t h = 0; h < heads; ++h) {
    const float* const head = weights.data() + h * tokens * frames;
    for (std::size_t f = 0; f < frames; ++f) {
      double sum = 0.0;
      double squares = 0.0;
      for (std::size_t t = 0; t < tokens; ++t) sum += head[t * frames + f];
      const double mean = sum / static_cast<double>(tokens);
      for (std::size_t t = 0; t < tokens; ++t) {
        const double d = head[t * frames + f] - mean;
        squares += d * d;
      }
      const double deviation = std::sqrt(squares / static_cast<double>(tokens));
      for (std::size_t t = 0; t < tokens; ++t)
        normed[t * frames + f] =
            deviation > 0.0 ? static_cast<float>((head[t * frames + f] - mean) / deviation) : 0.0f;
    }
    for (std::size_t t = skipped; t < tokens - dropped; ++t) {
      const std::vector<float> smooth =
          median_filter({normed.data() + t * frames, frames}, median_width);
      for (std::size_t f = 0; f < frames; ++f)
        costs.values[(t - skipped) * frames + f] -= smooth[f] / static_cast<double>(heads);
    }
  }
  std::vector<std::size_t> begins(costs.rows, 0);
  std::size_t next = 0;
  for (const auto& [row, column] : cheapest_path(costs))
    if (row == next) begins[next++] = column;
  return begins;
}

}  // namespace gpk::speech
