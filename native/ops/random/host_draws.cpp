#include "ops/random/host_draws.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace gpk::ops {
namespace {

constexpr std::size_t kChunk = 1024;  // words that stay in the L1

// Calls draw(words, out) for a chunk of words and as many results; the last one may be shorter.
template <class Draw>
void in_chunks(const WordSource& source, std::span<float> out, const Draw& draw) {
  std::array<std::uint32_t, kChunk> words;
  std::array<float, kChunk> values;
  for (std::size_t first = 0; first < out.size(); first += kChunk) {
    const std::size_t count = std::min(kChunk, out.size() - first);
    const std::size_t blocks = (count + 3) / 4;
    random_words(source, first / 4, std::span(words).first(4 * blocks));
    if (count == kChunk) {
      draw(words.data(), out.data() + first, kChunk);
    } else {
      draw(words.data(), values.data(), 4 * blocks);
      std::copy_n(values.data(), count, out.data() + first);
    }
  }
}

// -log(u) of a float in (0, 1], to a few ulp of float64, in operations that a compiler makes
// vectors of: log m = 2 atanh((m - 1) / (m + 1)) with m from 1/sqrt(2) to sqrt(2).
double minus_log(float u) {
  const auto bits = std::bit_cast<std::uint32_t>(u);
  constexpr std::uint32_t kRootHalf = 0x3f3504f3u;
  const auto exponent = static_cast<std::int32_t>(bits - kRootHalf) >> 23;
  const auto m = static_cast<double>(
      std::bit_cast<float>(bits - (static_cast<std::uint32_t>(exponent) << 23)));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 21.0;
  for (const double c : {1.0 / 19.0, 1.0 / 17.0, 1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0,
                         1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0})
    p = p * z + c;
  return -(2.0 * (s + s * z * p) + std::numbers::ln2 * static_cast<double>(exponent));
}

// Corners of a polygon; an angle is one of them and a small rest.
constexpr int kCornerBits = 8;
struct Corners {
  std::array<double, 1 << kCornerBits> cosine, sine;
  Corners() {
    for (std::size_t i = 0; i < cosine.size(); ++i) {
      const double angle = 2.0 * std::numbers::pi * static_cast<double>(i) / 256.0;
      cosine[i] = std::cos(angle);
      sine[i] = std::sin(angle);
    }
  }
};

void draw_normals(const std::uint32_t* words, float* out, std::size_t count, double loc,
                  double scale) {
  static const Corners corners;
  std::array<double, kChunk / 2> radius;
  for (std::size_t i = 0; i < count / 2; ++i) {
    const float u = static_cast<float>(words[2 * i]) * 0x1p-32f + 0x1p-33f;
    radius[i] = std::sqrt(std::max(0.0, 2.0 * minus_log(u)));
  }
  constexpr std::uint32_t kRest = 0xffffffffu >> kCornerBits;
  for (std::size_t i = 0; i < count / 2; ++i) {
    const std::uint32_t word = words[2 * i + 1];
    const double rest = static_cast<double>(static_cast<std::int32_t>(word & kRest)) *
                        (0x1p-32 * 2.0 * std::numbers::pi);  // below 0.025
    const double z = rest * rest;
    const double sine = ((z * (1.0 / 120.0) - 1.0 / 6.0) * z + 1.0) * rest;
    const double cosine = ((z * (-1.0 / 720.0) + 1.0 / 24.0) * z - 0.5) * z + 1.0;
    const double c = corners.cosine[word >> (32 - kCornerBits)];
    const double s = corners.sine[word >> (32 - kCornerBits)];
    out[2 * i] = static_cast<float>(radius[i] * (c * cosine - s * sine) * scale + loc);
    out[2 * i + 1] = static_cast<float>(radius[i] * (s * cosine + c * sine) * scale + loc);
  }
}

}  // namespace

void random_units(const WordSource& source, std::span<float> out) {
  in_chunks(source, out, [](const std::uint32_t* words, float* to, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      to[i] = static_cast<float>(static_cast<std::int32_t>(words[i] >> 8)) * 0x1p-24f;
  });
}

void random_normals(const WordSource& source, double loc, double scale, std::span<float> out) {
  in_chunks(source, out, [&](const std::uint32_t* words, float* to, std::size_t count) {
    draw_normals(words, to, count, loc, scale);
  });
}

}  // namespace gpk::ops
