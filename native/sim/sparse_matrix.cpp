// The sparse operand of mma.sp.
#include <algorithm>

#include "sim/machine.h"
#include "sim/matrix.h"

namespace gpk::sim {
namespace {

struct Places {
  unsigned first, second;
};

Places places_of(const MmaShape& shape, std::uint32_t bits, unsigned lane) {
  const Places places{bits & 3, bits >> 2 & 3};
  const bool defined =
      shape.sparse == kSparseOrdered ? places.first < places.second : places.first != places.second;
  if (!defined)
    throw Fault{"invalid", lane,
                "sparsity metadata with indices " + std::to_string(places.first) + " and " +
                    std::to_string(places.second) + " of one group of four"};
  return places;
}

}  // namespace

void expand_sparse(const MmaShape& shape, const std::uint32_t* metadata, const float* packed,
                   float* dense) {
  const auto depth = static_cast<unsigned>(shape.k);
  const unsigned words = depth / 16;  // of a row
  std::fill_n(dense, 16 * depth, 0.0f);
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned group = 0; group < depth / 4; ++group) {
      const unsigned lane = row % 8 * 4 + static_cast<unsigned>(shape.selector) * words + group / 4;
      const std::uint32_t bits = metadata[lane] >> (row / 8 * 16 + group % 4 * 4);
      const Places places = places_of(shape, bits, lane);
      const float* const from = packed + row * (depth / 2) + group * 2;
      float* const to = dense + row * depth + group * 4;
      to[places.first] = from[0];
      to[places.second] = from[1];
    }
}

}  // namespace gpk::sim
