// The kernels of native/kernels/recurrent on the host, against float64.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <random>

#include "recurrent/recurrent.cuh"
#include "recurrent/selective_scan.cuh"

namespace gpk {
namespace {

std::size_t as_size(long long x) { return static_cast<std::size_t>(x); }

template <class T>
std::vector<T> normal(long long count, unsigned seed, float spread = 1.0f) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> draw(0.0f, spread);
  std::vector<T> values(as_size(count));
  for (T& value : values) value = convert<T>(draw(bits));
  return values;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// One launch for all steps, or one for each.
template <class T, RecurrentCell kCell, int kCols>
void check_recurrent(int batch, int steps, int hidden, bool stepwise) {
  constexpr int kGates = kCell == RecurrentCell::kLstm ? 4 : 3;
  constexpr int kDirections = 2;
  const int states = kDirections * batch * hidden;
  std::vector<std::vector<T>> gates;
  std::vector<std::vector<T>> w;
  std::vector<std::vector<T>> bias;
  RecurrentArgs args{};
  for (unsigned d = 0; d < kDirections; ++d) {
    gates.push_back(normal<T>(batch * steps * kGates * hidden, 1 + d));
    w.push_back(normal<T>(kGates * hidden * hidden, 3 + d, 0.3f));
    bias.push_back(normal<T>(kGates * hidden, 5 + d));
    args.gates[d] = gates.back().data();
    args.w[d] = w.back().data();
    args.bias[d] = bias.back().data();
  }
  const auto h0 = normal<T>(states, 7);
  const auto c0 = normal<T>(states, 8);
  std::vector<T> out(as_size(batch * steps * kDirections * hidden));
  std::vector<T> h_n(as_size(states));
  std::vector<T> c_n(as_size(states));
  std::vector<unsigned long long> exchange(as_size(2 * states));
  std::vector<float> cells(as_size(states));
  args.h0 = h0.data();
  args.c0 = c0.data();
  args.out = out.data();
  args.h_n = h_n.data();
  args.c_n = c_n.data();
  args.exchange = exchange.data();
  args.cells = cells.data();
  args.out_step = kDirections * hidden;
  args.out_batch = args.out_step * steps;
  args.batch = args.num_batch = batch;
  args.steps = steps;
  args.hidden = hidden;
  args.directions = kDirections;
  args.reversed = 2;
  args.pitch = (hidden + 127) / 128 * 128;
  args.num_steps = stepwise ? 1 : steps;
  const Dim3 grid{static_cast<unsigned>((hidden + kRecurrentUnits - 1) / kRecurrentUnits),
                  kDirections, 1};
  for (args.first_step = 0; args.first_step < steps; args.first_step += args.num_steps) {
    const auto kernel = [&] { recurrent<T, kCell, kCols>(args); };
    if (stepwise) {
      host_cuda::launch(grid, kRecurrentUnits * 32, kernel);
    } else {
      host_cuda::launch_together(grid, kRecurrentUnits * 32, kernel);
    }
  }

  const double tolerance = sizeof(T) == 4 ? 1e-5 : 1e-2;
  for (int d = 0; d < kDirections; ++d)
    for (int b = 0; b < batch; ++b) {
      const int first = (d * batch + b) * hidden;
      std::vector<double> h;
      std::vector<double> c;
      for (int u = 0; u < hidden; ++u) {
        h.push_back(to_compute(h0[as_size(first + u)]));
        c.push_back(to_compute(c0[as_size(first + u)]));
      }
      for (int s = 0; s < steps; ++s) {
        const int t = d == 1 ? steps - 1 - s : s;
        const std::vector<double> before = h;
        for (int u = 0; u < hidden; ++u) {
          double x[kGates];
          double r[kGates];
          for (int g = 0; g < kGates; ++g) {
            const auto at = as_size(((b * steps + t) * kGates + g) * hidden + u);
            x[g] = to_compute(gates[as_size(d)][at]);
            r[g] = to_compute(bias[as_size(d)][as_size(g * hidden + u)]);
            for (int k = 0; k < hidden; ++k)
              r[g] += before[as_size(k)] *
                      to_compute(w[as_size(d)][as_size((g * hidden + u) * hidden + k)]);
          }
          const auto i = as_size(u);
          if (kCell == RecurrentCell::kLstm) {
            c[i] = sigmoid(x[1] + r[1]) * c[i] + sigmoid(x[0] + r[0]) * std::tanh(x[2] + r[2]);
            h[i] = sigmoid(x[kGates - 1] + r[kGates - 1]) * std::tanh(c[i]);
          } else {
            const double z = sigmoid(x[1] + r[1]);
            h[i] = (1 - z) * std::tanh(x[2] + sigmoid(x[0] + r[0]) * r[2]) + z * before[i];
          }
          const auto at = as_size((b * steps + t) * kDirections * hidden + d * hidden + u);
          ASSERT_NEAR(to_compute(out[at]), h[i], tolerance) << d << ", " << b << ", " << t;
        }
      }
      for (int u = 0; u < hidden; ++u) {
        ASSERT_NEAR(to_compute(h_n[as_size(first + u)]), h[as_size(u)], tolerance);
        if (kCell == RecurrentCell::kLstm) {
          ASSERT_NEAR(to_compute(c_n[as_size(first + u)]), c[as_size(u)], tolerance * 4);
        }
      }
    }
}

TEST(HostRecurrent, BlocksExchangeTheirStates) {
  check_recurrent<float, RecurrentCell::kLstm, 4>(2, 4, 12, false);
  check_recurrent<float16, RecurrentCell::kGru, 4>(1, 3, 9, false);
}

TEST(HostRecurrent, OneLaunchForEachStep) {
  check_recurrent<float, RecurrentCell::kLstm, 0>(3, 2, 10, true);
  check_recurrent<float, RecurrentCell::kGru, 8>(1, 2, 9, true);
}

template <class T, int kStates>
void check_scan(int batch, int channels, int length, int states, int chunk) {
  const auto x = normal<T>(batch * channels * length, 1);
  const auto delta = normal<T>(batch * channels * length, 2);
  std::vector<float> a = normal<float>(channels * states, 3);
  for (float& rate : a) rate = -std::exp(rate);
  const auto b = normal<T>(batch * states * length, 4);
  const auto c = normal<T>(batch * states * length, 5);
  const auto d = normal<float>(channels, 6);
  const auto z = normal<T>(batch * channels * length, 7);
  const auto bias = normal<float>(channels, 8);
  const auto state = normal<float>(batch * channels * states, 9);
  std::vector<float> state_out(state.size());
  std::vector<T> out(x.size());
  SelectiveScanArgs args{};
  args.x = x.data();
  args.delta = delta.data();
  args.a = a.data();
  args.b = b.data();
  args.c = c.data();
  args.d = d.data();
  args.z = z.data();
  args.bias = bias.data();
  args.state = state.data();
  args.state_out = state_out.data();
  args.out = out.data();
  args.batch = batch;
  args.channels = channels;
  args.length = length;
  args.states_per_channel = states;
  args.softplus = 1;
  args.chunk = chunk;
  args.chunks = (length + chunk - 1) / chunk;
  std::vector<float> decays(state.size() * as_size(args.chunks));
  std::vector<float> sums(decays.size());
  const int per_block = kScanThreads / kStates;
  const Dim3 grid{static_cast<unsigned>((channels + per_block - 1) / per_block),
                  static_cast<unsigned>(args.chunks), static_cast<unsigned>(batch)};
  if (args.chunks > 1) {
    args.decays = decays.data();
    args.states = sums.data();
    host_cuda::launch(grid, kScanThreads, [&] { scan_states<T, kStates>(args); });
    host_cuda::launch(static_cast<unsigned>(state.size() / kScanThreads + 1), kScanThreads,
                      [&] { scan_combine(args); });
  }
  host_cuda::launch(grid, kScanThreads, [&] { scan_outputs<T, kStates>(args); });

  const double tolerance = sizeof(T) == 4 ? 1e-5 : 2e-2;
  for (int i = 0; i < batch * channels; ++i) {
    std::vector<double> h;
    for (int n = 0; n < states; ++n) h.push_back(state[as_size(i * states + n)]);
    const int channel = i % channels;
    for (int t = 0; t < length; ++t) {
      const auto at = as_size(i * length + t);
      const double dt =
          std::log1p(std::exp(to_compute(delta[at]) + static_cast<double>(bias[as_size(channel)])));
      double y = static_cast<double>(d[as_size(channel)]) * to_compute(x[at]);
      for (int n = 0; n < states; ++n) {
        const auto of_b = as_size((i / channels * states + n) * length + t);
        double& s = h[as_size(n)];
        s = std::exp(dt * a[as_size(channel * states + n)]) * s +
            dt * to_compute(b[of_b]) * to_compute(x[at]);
        y += s * to_compute(c[of_b]);
      }
      const double gate = to_compute(z[at]);
      ASSERT_NEAR(to_compute(out[at]), y * gate * sigmoid(gate), tolerance * (1 + std::fabs(y)));
    }
    for (int n = 0; n < states; ++n)
      ASSERT_NEAR(state_out[as_size(i * states + n)], h[as_size(n)],
                  1e-5 * (1 + std::fabs(h[as_size(n)])));
  }
}

TEST(HostSelectiveScan, WholeAndInChunks) {
  check_scan<float, 16>(2, 5, 20, 16, 64);
  check_scan<float, 16>(1, 4, 40, 12, 32);
  check_scan<bfloat16, 4>(1, 33, 9, 3, 32);
}

}  // namespace
}  // namespace gpk
