// Tokens to frames, by the weights of cross attention. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpk::speech {

// A matrix [rows, columns], row by row.
struct CostMatrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;
};

// Cells (row, column) of the cheapest path from the first cell to the last, each one a row, a
// column or both further than the one before it.
std::vector<std::pair<std::size_t, std::size_t>> cheapest_path(const CostMatrix& costs);

// The median of `width` (odd) neighbours of each value; beyond the ends values are mirrored.
std::vector<float> median_filter(std::span<const float> values, std::size_t width);

// The column where each row begins, by attention weights [heads, tokens, frames]: normalised over
// the tokens, smoothed over the frames, averaged over the heads, without the first `skipped` and
// the last `dropped` rows, and aligned by the cheapest path.
std::vector<std::size_t> align_rows(std::span<const float> weights, std::size_t heads,
                                    std::size_t tokens, std::size_t frames, std::size_t skipped,
                                    std::size_t dropped, std::size_t median_width);

}  // namespace gpk::speech
