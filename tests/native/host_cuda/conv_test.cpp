// The kernels of native/kernels/conv on the host, against float64.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <random>

#include "conv/causal_conv.cuh"
#include "conv/conv_direct.cuh"
#include "conv/conv_mma.cuh"
#include "conv/conv_pack.cuh"

namespace gpk {
namespace {

std::size_t as_size(long long x) { return static_cast<std::size_t>(x); }

template <class T>
std::vector<T> normal(long long count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> draw(0.0f, 1.0f);
  std::vector<T> values(as_size(count));
  for (T& value : values) value = convert<T>(draw(bits));
  return values;
}

struct Problem {
  int batch = 1;
  int groups = 1;
  int in_channels = 1, out_channels = 1;  // of a group
  int in_h = 1, in_w = 1;
  int kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int pad_h = 0, pad_w = 0;
  int dilation_h = 1, dilation_w = 1;
  bool transposed = false;

  [[nodiscard]] int out_h() const {
    return (in_h + 2 * pad_h - dilation_h * (kernel_h - 1) - 1) / stride_h + 1;
  }
  [[nodiscard]] int out_w() const {
    const int reach = dilation_w * (kernel_w - 1);
    return transposed ? (in_w - 1) * stride_w - 2 * pad_w + reach + 1
                      : (in_w + 2 * pad_w - reach - 1) / stride_w + 1;
  }
};

template <class T>
struct Data {
  std::vector<T> x, w, bias, residual, out;
  ConvArgs args{};

  explicit Data(const Problem& p)
      : x(normal<T>(static_cast<long long>(p.batch) * p.groups * p.in_channels * p.in_h * p.in_w,
                    1)),
        w(normal<T>(static_cast<long long>(p.groups) * p.in_channels * p.out_channels * p.kernel_h *
                        p.kernel_w,
                    2)),
        bias(normal<T>(p.groups * p.out_channels, 3)) {
    const int span = p.out_h() * p.out_w();
    const long long outputs = static_cast<long long>(p.batch) * p.groups * p.out_channels * span;
    residual = normal<T>(outputs, 4);
    out.resize(as_size(outputs));
    args.x = x.data();
    args.w = w.data();
    args.bias = bias.data();
    args.residual = residual.data();
    args.out = out.data();
    args.x_row = p.in_w;
    args.x_channel = static_cast<long long>(p.in_h) * p.in_w;
    args.x_batch = args.x_channel * p.groups * p.in_channels;
    args.out_row = args.residual_row = p.out_w();
    args.out_channel = args.residual_channel = span;
    args.out_batch = args.residual_batch = static_cast<long long>(span) * p.groups * p.out_channels;
    args.batch = p.batch;
    args.groups = p.groups;
    args.in_channels = p.in_channels;
    args.out_channels = p.out_channels;
    args.in_h = p.in_h;
    args.in_w = p.in_w;
    args.out_h = p.out_h();
    args.out_w = p.out_w();
    args.kernel_h = p.kernel_h;
    args.kernel_w = p.kernel_w;
    args.stride_h = p.stride_h;
    args.stride_w = p.stride_w;
    args.pad_h = p.pad_h;
    args.pad_w = p.pad_w;
    args.dilation_h = p.dilation_h;
    args.dilation_w = p.dilation_w;
    args.activation = kConvRelu;
  }

  // Every input to every output that it reaches.
  [[nodiscard]] std::vector<double> oracle(const Problem& p) const {
    std::vector<double> sums(out.size());
    const int out_span = p.out_h() * p.out_w();
    for (int b = 0; b < p.batch; ++b)
      for (int g = 0; g < p.groups; ++g)
        for (int ci = 0; ci < p.in_channels; ++ci)
          for (int co = 0; co < p.out_channels; ++co)
            for (int i = 0; i < p.in_h * p.in_w; ++i)
              for (int t = 0; t < p.kernel_h * p.kernel_w; ++t) {
                const int in_channel = g * p.in_channels + ci;
                const int out_channel = g * p.out_channels + co;
                int oh = 0;
                int ow = 0;
                if (p.transposed) {
                  ow = i * p.stride_w + t * p.dilation_w - p.pad_w;
                } else {
                  oh = i / p.in_w + p.pad_h - t / p.kernel_w * p.dilation_h;
                  ow = i % p.in_w + p.pad_w - t % p.kernel_w * p.dilation_w;
                  if (oh % p.stride_h != 0 || ow % p.stride_w != 0) continue;
                  oh /= p.stride_h;
                  ow /= p.stride_w;
                }
                if (oh < 0 || ow < 0 || oh >= p.out_h() || ow >= p.out_w()) continue;
                const int pair = p.transposed ? in_channel * p.out_channels + co
                                              : out_channel * p.in_channels + ci;
                const double weight = to_compute(w[as_size(pair * p.kernel_h * p.kernel_w + t)]);
                const double value = to_compute(
                    x[as_size((b * p.groups * p.in_channels + in_channel) * p.in_h * p.in_w + i)]);
                sums[as_size((b * p.groups * p.out_channels + out_channel) * out_span +
                             oh * p.out_w() + ow)] += weight * value;
              }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto channel = i / as_size(out_span) % bias.size();
      sums[i] = std::max(sums[i] + to_compute(bias[channel]), 0.0) + to_compute(residual[i]);
    }
    return sums;
  }

  void check(const Problem& p) const {
    const std::vector<double> want = oracle(p);
    const double unit = sizeof(T) == 4 ? 5e-6 : kIsSame<T, float16> ? 1e-3 : 8e-3;
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(to_compute(out[i]), want[i], unit * (1 + std::fabs(want[i]))) << "at " << i;
  }
};

// As ops/conv/plan.cpp does.
ConvTiles tiles_of(const Problem& p, int tile_m, int tile_n, int tile_w, int line) {
  ConvTiles t{};
  t.phases = p.transposed ? p.stride_w : 1;
  t.rows = p.out_channels * t.phases;
  t.taps_h = p.kernel_h;
  t.taps_w = (p.kernel_w + t.phases - 1) / t.phases;
  t.stride_h = p.stride_h;
  t.stride_w = p.transposed ? 1 : p.stride_w;
  t.dilation_h = p.dilation_h;
  t.dilation_w = p.dilation_w;
  t.pad_h = p.pad_h;
  t.pad_w = p.transposed ? t.taps_w - 1 : p.pad_w;
  t.out_first = p.transposed ? -p.pad_w : 0;
  t.positions_h = p.out_h();
  t.positions_w = (p.out_w() - t.out_first + t.phases - 1) / t.phases;
  const int tile_h = tile_n / tile_w;
  t.tiles_h = (t.positions_h + tile_h - 1) / tile_h;
  t.tiles_w = (t.positions_w + tile_w - 1) / tile_w;
  t.tiles_m = (t.rows + tile_m - 1) / tile_m;
  t.k_blocks = (p.in_channels + line - 1) / line;
  t.window_h = (tile_h - 1) * t.stride_h + (t.taps_h - 1) * t.dilation_h + 1;
  t.window_w = (tile_w - 1) * t.stride_w + (t.taps_w - 1) * t.dilation_w + 1;
  t.phase_pitch = (t.window_w + t.stride_w - 1) / t.stride_w;
  t.pitch = (t.phase_pitch * t.stride_w + 7) / 8 * 8;
  return t;
}

template <class T, bool kPrecise, int kTileM, int kTileN, int kTileW, int kWarpM, int kWarpN>
void check_mma(const Problem& p, bool wide = false) {
  constexpr int kLine = kConvLineBytes / static_cast<int>(sizeof(T));
  Data<T> data(p);
  ConvTiles tiles = tiles_of(p, kTileM, kTileN, kTileW, kLine);
  tiles.wide = wide ? 1 : 0;
  ConvPackArgs pack{};
  pack.in_channels = p.in_channels;
  pack.out_channels = p.out_channels;
  pack.taps = p.kernel_h * p.kernel_w;
  pack.phases = tiles.phases;
  pack.gemm_taps = tiles.taps_h * tiles.taps_w;
  pack.k_blocks = tiles.k_blocks;
  pack.num_chunks = static_cast<long long>(p.groups) * tiles.k_blocks * pack.gemm_taps *
                    tiles.rows * (kConvLineBytes / 16);
  std::vector<Word16> packed(as_size(pack.num_chunks));
  pack.w = data.w.data();
  pack.packed = packed.data();
  host_cuda::launch(static_cast<unsigned>((pack.num_chunks + 255) / 256), 256, [&] {
    if (p.transposed) {
      conv_pack<T, true>(pack);
    } else {
      conv_pack<T, false>(pack);
    }
  });
  data.args.w = packed.data();
  constexpr int kThreads = kTileM / kWarpM * (kTileN / kWarpN) * 32;
  const Dim3 grid{static_cast<unsigned>(tiles.tiles_h * tiles.tiles_w * p.batch),
                  static_cast<unsigned>(tiles.tiles_m * p.groups), 1};
  host_cuda::launch(grid, kThreads, [&] {
    conv_mma<T, kPrecise, kTileM, kTileN, kTileW, kWarpM, kWarpN, 3, 1>(data.args, tiles);
  });
  data.check(p);
}

Problem sequence(int in_channels, int out_channels, int length, int taps, int stride, int pad,
                 int dilation = 1) {
  Problem p;
  p.in_channels = in_channels;
  p.out_channels = out_channels;
  p.in_w = length;
  p.kernel_w = taps;
  p.stride_w = stride;
  p.pad_w = pad;
  p.dilation_w = dilation;
  return p;
}

TEST(HostConvMma, Sequences) {
  check_mma<float16, false, 64, 64, 64, 32, 32>(sequence(80, 40, 75, 3, 1, 1));
}

TEST(HostConvMma, Strides) {
  check_mma<bfloat16, false, 64, 64, 64, 32, 32>(sequence(24, 40, 100, 3, 2, 1));
}

TEST(HostConvMma, DilationsAndWideStores) {
  check_mma<float16, false, 64, 64, 64, 32, 32>(sequence(16, 8, 64, 5, 1, 6, 3), true);
}

TEST(HostConvMma, Float32) {
  check_mma<float, true, 64, 64, 64, 32, 32>(sequence(40, 12, 70, 3, 3, 2));
}

TEST(HostConvMma, LargeTilesAndGroups) {
  Problem p = sequence(16, 20, 140, 3, 1, 1);
  p.batch = 2;
  p.groups = 2;
  check_mma<bfloat16, false, 128, 128, 128, 32, 64>(p);
}

TEST(HostConvMma, Transposed) {
  Problem p = sequence(20, 9, 30, 20, 10, 5);
  p.transposed = true;
  check_mma<float16, false, 64, 64, 64, 32, 32>(p);
  p = sequence(8, 30, 70, 4, 3, 0);
  p.transposed = true;
  check_mma<float, true, 64, 64, 64, 32, 32>(p);
}

TEST(HostConvMma, Images) {
  Problem p;
  p.in_channels = 10;
  p.out_channels = 12;
  p.in_h = 11;
  p.in_w = 20;
  p.kernel_h = 3;
  p.kernel_w = 3;
  p.pad_h = p.pad_w = 1;
  check_mma<bfloat16, false, 64, 64, 16, 32, 32>(p);
  p.stride_h = p.stride_w = 2;
  p.dilation_h = 2;
  p.kernel_w = 4;
  check_mma<float16, false, 64, 64, 16, 32, 32>(p);
}

template <class T, bool kTransposed>
void check_direct(const Problem& p, int lane_bits) {
  Data<T> data(p);
  ConvDirectGrid grid{};
  grid.lane_bits = lane_bits;
  const int per_chunk = kConvDirectOutputs << lane_bits;
  grid.chunks = (p.out_w() + per_chunk - 1) / per_chunk;
  grid.num_lines =
      static_cast<long long>(p.batch) * p.groups * p.out_channels * p.out_h() * grid.chunks;
  const long long threads = grid.num_lines << lane_bits;
  host_cuda::launch(static_cast<unsigned>((threads + kConvDirectThreads - 1) / kConvDirectThreads),
                    kConvDirectThreads, [&] { conv_direct<T, kTransposed>(data.args, grid); });
  data.check(p);
}

TEST(HostConvDirect, AnyShape) {
  Problem p = sequence(1, 2, 50, 4, 1, 3);
  p.groups = 6;
  p.batch = 2;
  check_direct<float16, false>(p, 3);
  p = sequence(3, 4, 30, 3, 2, 1, 2);
  check_direct<float, false>(p, 5);
  p.transposed = true;
  check_direct<bfloat16, true>(p, 2);
  Problem image;
  image.in_channels = 2;
  image.out_channels = 3;
  image.in_h = 6;
  image.in_w = 7;
  image.kernel_h = 3;
  image.kernel_w = 2;
  image.pad_h = 1;
  image.stride_h = 2;
  check_direct<float, false>(image, 1);
}

// A sequence in pieces gives what it gives as a whole; the last piece is in place.
TEST(HostCausalConv, StateCarriesOn) {
  constexpr int kChannels = 5;
  constexpr int kTaps = 4;
  constexpr int kLength = 40;
  const auto x = normal<float>(kChannels * kLength, 1);
  const auto w = normal<float>(kChannels * kTaps, 2);
  std::vector<float> out(x.size());
  std::vector<float> state(kChannels * (kTaps - 1));
  std::vector<float> next(state.size());
  int first = 0;
  for (const int length : {1, 2, 34, 3}) {
    const bool small = length <= kConvDirectOutputs;
    CausalConvArgs args{};
    args.x = x.data() + first;
    args.w = w.data();
    args.state = first == 0 ? nullptr : state.data();
    args.out = out.data() + first;
    args.state_out = small ? state.data() : next.data();
    args.x_channel = args.out_channel = kLength;
    args.channels = kChannels;
    args.length = length;
    args.taps = kTaps;
    args.grid.lane_bits = small ? 0 : 2;
    args.grid.chunks = small ? 1 : 3;
    args.grid.num_lines = static_cast<long long>(kChannels) * args.grid.chunks;
    host_cuda::launch(1, kConvDirectThreads, [&] { causal_conv<float>(args); });
    if (!small) state = next;
    first += length;
  }
  ASSERT_EQ(first, kLength);
  for (int c = 0; c < kChannels; ++c)
    for (int t = 0; t < kLength; ++t) {
      double want = 0;
      for (int j = 0; j < kTaps; ++j)
        if (t - j >= 0)
          want += static_cast<double>(w[as_size(c * kTaps + kTaps - 1 - j)]) *
                  x[as_size(c * kLength + t - j)];
      ASSERT_NEAR(out[as_size(c * kLength + t)], want, 1e-5);
    }
  for (int c = 0; c < kChannels; ++c)
    for (int i = 0; i < kTaps - 1; ++i)
      ASSERT_EQ(state[as_size(c * (kTaps - 1) + i)],
                x[as_size(c * kLength + kLength - kTaps + 1 + i)]);
}

}  // namespace
}  // namespace gpk
