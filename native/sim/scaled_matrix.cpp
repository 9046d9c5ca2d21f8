// mma.sync with block scales.
#include <cmath>
#include <cstring>

#include "sim/alu.h"
#include "sim/formats.h"
#include "sim/machine.h"
#include "sim/matrix.h"

namespace gpk::sim {
namespace {

constexpr unsigned kRows = 16, kColumns = 8, kMaxDepth = 64;

float element_of(MmaElement element, std::uint32_t bits) {
  switch (element) {
    case kElementE4m3: return static_cast<float>(value_of(kFormatE4m3, bits & 0xff));
    case kElementE5m2: return static_cast<float>(value_of(kFormatE5m2, bits & 0xff));
    default: break;
  }
  static constexpr float kMagnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  return (bits & 8) != 0 ? -kMagnitudes[bits & 7] : kMagnitudes[bits & 7];
}

float scale_of(MmaScale format, std::uint32_t byte) {
  if (format == kScaleUe4m3) return static_cast<float>(value_of(kFormatE4m3, byte & 0x7f));
  return byte == 0xff ? NAN : std::ldexp(1.0f, static_cast<int>(byte) - 127);
}

// Element `i` of register `r` of a lane: its row (of a) or column (of b), and its k.
struct Place {
  unsigned line, k;
};
Place place_of(unsigned lane, unsigned r, unsigned i, unsigned per_register, bool of_a) {
  const unsigned half = of_a ? r / 2 : r;
  return {lane / 4 + (of_a ? r % 2 * 8 : 0), lane % 4 * per_register + half * 4 * per_register + i};
}

// Scaled numbers: out[line][k].
void read_scaled(const Warp& warp, const ScaledMmaShape& shape, const std::int32_t* cells,
                 Cell scales, bool of_a, float (&out)[kRows][kMaxDepth]) {
  const auto bits = static_cast<unsigned>(shape.bits);
  const unsigned per_register = 32 / bits, depth = 8 * per_register;
  const unsigned group = depth / static_cast<unsigned>(shape.num_scales);
  const ScaleSelector select = of_a ? shape.select_a : shape.select_b;
  const auto thread = static_cast<unsigned>(select.thread);
  const auto* const words = warp.source<std::uint32_t>(scales);
  for (unsigned r = 0; r < (of_a ? 4u : 2u); ++r) {
    const auto* const values = warp.source<std::uint32_t>(cells[r]);
    for (unsigned lane = 0; lane < kLanes; ++lane)
      for (unsigned i = 0; i < per_register; ++i) {
        const Place at = place_of(lane, r, i, per_register, of_a);
        const unsigned from =
            of_a ? at.line % 8 * 4 + 2 * thread + at.line / 8 : at.line * 4 + thread;
        const unsigned byte = static_cast<unsigned>(select.byte) + at.k / group;
        out[at.line][at.k] = element_of(of_a ? shape.a : shape.b, values[lane] >> (bits * i)) *
                             scale_of(shape.scale_format, words[from] >> (8 * byte) & 0xff);
      }
  }
}

}  // namespace

void multiply_scaled(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::int32_t* args = warp.frame->function->args.data() + op.args + 1;
  ScaledMmaShape shape;
  std::memcpy(&shape, args, sizeof shape);
  const std::int32_t* const d = args + sizeof shape / sizeof(std::int32_t);
  const std::int32_t* const a = d + 4;
  const std::int32_t* const b = a + 4;
  const std::int32_t* const c = b + 2;
  float left[kRows][kMaxDepth], right[kRows][kMaxDepth], sums[kRows][kColumns];
  read_scaled(warp, shape, a, c[4], true, left);
  read_scaled(warp, shape, b, c[5], false, right);
  const unsigned depth = 256 / static_cast<unsigned>(shape.bits);
  const auto each = [&](auto body) {
    for (unsigned i = 0; i < 4; ++i)
      for (unsigned lane = 0; lane < kLanes; ++lane)
        body(i, lane, sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
  };
  each([&](unsigned i, unsigned lane, float& sum) { sum = warp.source<float>(c[i])[lane]; });
  for (unsigned m = 0; m < kRows; ++m)
    for (unsigned n = 0; n < kColumns; ++n)
      for (unsigned k = 0; k < depth; ++k) sums[m][n] += left[m][k] * right[n][k];
  each([&](unsigned i, unsigned lane, float& sum) {
    if ((mask >> lane & 1) != 0) warp.cell<float>(d[i])[lane] = sum;
  });
}

}  // namespace gpk::sim
