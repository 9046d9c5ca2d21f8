// Random weights, quantised and restored by the kernels of quantize.cuh on the host. After
// host_cuda.h.
#pragma once

#include <random>

#include "quantize/quantize.cuh"

namespace gpk {

struct Format {
  int code, scale, group, scale_rows = 1;
};

struct Packed {
  int n, k;
  Format format;
  long long values_row, groups;
  std::vector<unsigned char> values, zeros;
  std::vector<float> scales;  // of any code, as bytes
  float tensor_scale = 1.0f;

  QuantizeArgs args() {
    QuantizeArgs a{};
    a.values = values.data();
    a.scales = scales.data();
    a.zeros = (kZeroPointCodes >> format.code & 1) != 0 ? zeros.data() : nullptr;
    a.tensor_scale = format.scale == kScaleE4M3 ? &tensor_scale : nullptr;
    a.n = n;
    a.k = k;
    a.values_row = values_row;
    a.groups = groups;
    a.group = format.group == 0 ? k : format.group;
    a.scale_rows = format.scale_rows;
    a.code = format.code;
    a.scale_code = format.scale;
    return a;
  }
};

inline Packed make_packed(int n, int k, const Format& format) {
  Packed p{n, k, format};
  const long long bytes = (kNibbleCodes >> format.code & 1) != 0 ? (k + 1) / 2 : k;
  p.values_row = (bytes + 15) / 16 * 16;
  const int group = format.group == 0 ? k : format.group;
  p.groups = (k + group - 1) / group;
  p.values.resize(static_cast<std::size_t>(n * p.values_row));
  p.zeros.resize(static_cast<std::size_t>(n * p.groups));
  p.scales.resize(static_cast<std::size_t>(n * p.groups));
  return p;
}

template <int kCode>
Packed quantize_rows(const std::vector<float>& w, int n, int k, const Format& format) {
  Packed p = make_packed(n, k, format);
  float amax = 0.0f;
  for (const float x : w) amax = std::max(amax, std::fabs(x));
  if (format.scale == kScaleE4M3) p.tensor_scale = amax / (448.0f * 6.0f);
  QuantizeArgs args = p.args();
  args.w = w.data();
  args.w_row = k;
  const auto blocks = [](long long items, int per) {
    return static_cast<unsigned>((items + per - 1) / per);
  };
  const long long rows = (n + format.scale_rows - 1) / format.scale_rows;
  host_cuda::launch(blocks(rows * p.groups, kQuantizeThreads / 32), kQuantizeThreads,
                    [&] { quantize_scales<float>(args); });
  host_cuda::launch(blocks(n * p.values_row / 4, kQuantizeThreads), kQuantizeThreads,
                    [&] { quantize_values<kCode, float>(args); });
  return p;
}

template <int kCode>
std::vector<float> restore(Packed& p) {
  std::vector<float> out(static_cast<std::size_t>(p.n) * static_cast<std::size_t>(p.k));
  QuantizeArgs args = p.args();
  args.out = out.data();
  const long long threads = p.n * p.values_row / (kIsNibble<kCode> ? 4 : 8);
  host_cuda::launch(static_cast<unsigned>((threads + kQuantizeThreads - 1) / kQuantizeThreads),
                    kQuantizeThreads, [&] { dequantize<kCode, float>(args); });
  return out;
}

inline std::vector<float> normals(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(bits);
  return values;
}

}  // namespace gpk
