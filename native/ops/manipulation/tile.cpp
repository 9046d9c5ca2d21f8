#include "ops/manipulation/tile.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"

namespace gpk::ops {
namespace {

// A result in which some axes are split in two: copies, then elements (or vice versa).
struct Folded {
  Dims shape;    // of the result
  Dims view;     // of the result with some axes split in two
  Array source;  // broadcasts to `view`
};

Array copy_folded(const Folded& folded, const char* op) {
  Array out = Array::empty(folded.shape, folded.source.dtype(), folded.source.device(), op);
  copy_into(*try_reshape(out, folded.view), folded.source, op);
  return out;
}

void append(Dims& dims, std::int64_t value, const char* op) {
  if (dims.size() == kMaxRank)
    throw InvalidArgument(cat(op, ": too many axes are repeated; at most ", kMaxRank,
                              " axes and repeated axes together are supported"));
  Dims longer = Dims::filled(dims.size() + 1, value);
  std::copy(dims.begin(), dims.end(), longer.data());
  dims = std::move(longer);
}

std::int64_t times(std::int64_t size, std::int64_t count, const char* op) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(size, count, &product))
    throw InvalidArgument(cat(op, ": the result has more than 2**63 - 1 elements"));
  return product;
}

}  // namespace

Array tile(const Array& x, const Dims& repeats) {
  for (const std::int64_t count : repeats)
    if (count < 0)
      throw InvalidArgument(
          cat("tile: repetitions ", to_string(repeats), " has a negative number"));
  const int rank = std::max(x.ndim(), repeats.size());
  Dims shape;
  Dims view;
  Dims source_shape;
  for (int i = 0; i < rank; ++i) {
    const int at = i - (rank - x.ndim());
    const int repeat_at = i - (rank - repeats.size());
    const std::int64_t size = at < 0 ? 1 : x.shape()[at];
    const std::int64_t count = repeat_at < 0 ? 1 : repeats[repeat_at];
    append(shape, times(size, count, "tile"), "tile");
    if (count != 1) {
      append(view, count, "tile");
      append(source_shape, 1, "tile");
    }
    append(view, size, "tile");
    append(source_shape, size, "tile");
  }
  return copy_folded({shape, view, reshape(x, source_shape, "tile")}, "tile");
}

Array repeat(const Array& x, std::int64_t count, std::optional<std::int64_t> axis, const char* op) {
  if (count < 0) throw InvalidArgument(cat(op, ": repeats is ", count, ", expected a number >= 0"));
  if (!axis) return repeat(reshape(x, {-1}, op), count, 0, op);
  const int along = normalize_axis(*axis, x.ndim(), op);
  Dims shape = x.shape();
  shape[along] = times(shape[along], count, op);
  const Array source = expand_dims(x, {along + 1}, op);
  Dims view = source.shape();
  view[along + 1] = count;
  return copy_folded({shape, view, source}, op);
}

}  // namespace gpk::ops
