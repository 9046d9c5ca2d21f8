// LSTM and GRU over steps, after the input part of the gates (a GEMM over all steps):
//   LSTM: i, f, o = sigmoid, g = tanh of (gates + w h + bias); c = f c + i g; h = o tanh(c)
//   GRU:  r, z = sigmoid(gates + w h + bias); n = tanh(gates + r (w h + bias)); h = (1 - z) n + z h
// A warp has one hidden unit: its rows of w in registers for all steps (kCols columns a lane; 0:
// read again in every step), a sample's cell in a lane. Grid: x units, y directions. All blocks of
// a direction pass h to each other through global memory in every step, tagged by the step, two
// slots in turn: a slot is free once every block has published the step after it. So a launch of
// several steps needs all its blocks resident; launches of one step do not wait. Float32; the order
// of sums depends on the number of hidden units alone.
#pragma once

#include "args/recurrent.h"
#include "common/dtype.cuh"
#include "common/exchange.cuh"
#include "common/shared.cuh"
#include "common/vec.cuh"

namespace gpk {

using namespace kernels;

__device__ __forceinline__ float recurrent_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

template <class T, RecurrentCell kCell, int kCols>
struct Recurrent {
  static constexpr int kGates = kCell == RecurrentCell::kLstm ? 4 : 3;
  static constexpr int kThreads = kRecurrentUnits * 32;
  using Gates = float[kGates];

  const RecurrentArgs& args;
  int direction, unit, lane;
  const T* w;
  float weights[kGates][kCols > 0 ? kCols : 1];

  __device__ __forceinline__ explicit Recurrent(const RecurrentArgs& given)
      : args(given),
        direction(static_cast<int>(blockIdx.y)),
        unit(static_cast<int>(blockIdx.x) * kRecurrentUnits + static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) & 31),
        w(static_cast<const T*>(given.w[blockIdx.y])) {
    if constexpr (kCols > 0) {
#pragma unroll
      for (int g = 0; g < kGates; ++g)
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
          const int col = j / 4 * 128 + lane * 4 + j % 4;
          weights[g][j] = unit < args.hidden && col < args.hidden ? weight(g, col) : 0.0f;
        }
    }
  }

  __device__ __forceinline__ float weight(int g, int col) const {
    return to_compute(w[(static_cast<long long>(g) * args.hidden + unit) * args.hidden + col]);
  }

  // The place of a sample in [directions, batch, hidden].
  __device__ __forceinline__ long long place(int sample, int of_unit) const {
    return (static_cast<long long>(direction) * args.batch + args.first_batch + sample) *
               args.hidden +
           of_unit;
  }
  __device__ __forceinline__ unsigned long long* slot(int step, int sample, int of_unit) const {
    const long long size = static_cast<long long>(args.directions) * args.batch * args.hidden;
    return args.exchange + (step & 1) * size + place(sample, of_unit);
  }

  // The hidden states that `step` starts from, to shared memory.
  __device__ __forceinline__ void gather(int step, float* hidden) const {
    constexpr int kWords = 4;  // in flight
    const int total = args.num_batch * args.hidden;
    for (int first = static_cast<int>(threadIdx.x); first < total; first += kWords * kThreads) {
      const int count = min((total - first + kThreads - 1) / kThreads, kWords);
      float values[kWords] = {};
      if (step > 0) {
        receive(slot(step - 1, 0, first), kThreads, count, static_cast<unsigned>(step), values);
      } else if (args.h0 != nullptr) {
#pragma unroll
        for (int i = 0; i < kWords; ++i)
          if (i < count)
            values[i] = to_compute(static_cast<const T*>(args.h0)[place(0, first) + i * kThreads]);
      }
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const int at = first + i * kThreads;
        const int sample = args.num_batch == 1 ? 0 : at / args.hidden;
        if (i < count) hidden[at + sample * (args.pitch - args.hidden)] = values[i];
      }
    }
  }

  // w h of one sample, in every lane.
  __device__ __forceinline__ void multiply(const float* hidden, Gates& sums) const {
#pragma unroll
    for (int g = 0; g < kGates; ++g) sums[g] = 0.0f;
    if constexpr (kCols > 0) {
#pragma unroll
      for (int q = 0; q < kCols / 4; ++q) {
        if (q * 128 >= args.pitch) break;
        const Vec<float, 4> h = load_vec<float, 4>(hidden + q * 128 + lane * 4);
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
          for (int g = 0; g < kGates; ++g) sums[g] += weights[g][q * 4 + e] * h.v[e];
      }
    } else {
      // The last block may have more warps than units.
      for (int col = unit < args.hidden ? lane : args.hidden; col < args.hidden; col += 32)
#pragma unroll
        for (int g = 0; g < kGates; ++g) sums[g] += weight(g, col) * hidden[col];
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1)
#pragma unroll
      for (int g = 0; g < kGates; ++g) sums[g] += __shfl_xor_sync(0xffffffffu, sums[g], mask);
  }

  // From the parts of a sample's gates to its hidden state.
  static __device__ __forceinline__ float next(const Gates& input, const Gates& hidden, float& cell,
                                               float before) {
    if constexpr (kCell == RecurrentCell::kLstm) {
      const float i = recurrent_sigmoid(input[0] + hidden[0]);
      const float f = recurrent_sigmoid(input[1] + hidden[1]);
      const float g = tanhf(input[2] + hidden[2]);
      const float o = recurrent_sigmoid(input[3] + hidden[3]);
      cell = f * cell + i * g;
      return o * tanhf(cell);
    } else {
      const float r = recurrent_sigmoid(input[0] + hidden[0]);
      const float z = recurrent_sigmoid(input[1] + hidden[1]);
      const float n = tanhf(input[2] + r * hidden[2]);
      return (1.0f - z) * n + z * before;
    }
  }

  __device__ __forceinline__ void run(float* shared) const {
    const bool mine = unit < args.hidden && lane < args.num_batch;
    const int window = args.num_batch * args.pitch;
    if constexpr (kCols > 0) {  // columns past the last one are multiplied by 0
      for (int i = static_cast<int>(threadIdx.x); i < 2 * window; i += kThreads)
        if (i % args.pitch >= args.hidden) shared[i] = 0.0f;
    }
    Gates bias = {};
    if (mine && args.bias[direction] != nullptr) {
#pragma unroll
      for (int g = 0; g < kGates; ++g)
        bias[g] = to_compute(static_cast<const T*>(args.bias[direction])[g * args.hidden + unit]);
    }
    float cell = 0.0f;
    if (kCell == RecurrentCell::kLstm && mine) {
      if (args.first_step > 0) {
        cell = args.cells[place(lane, unit)];
      } else if (args.c0 != nullptr) {
        cell = to_compute(static_cast<const T*>(args.c0)[place(lane, unit)]);
      }
    }
    const int last_step = args.first_step + args.num_steps;
    for (int step = args.first_step; step < last_step; ++step) {
      const int time = (args.reversed >> direction & 1) != 0 ? args.steps - 1 - step : step;
      const long long sample = args.first_batch + lane;
      Gates input = {};
      if (mine) {  // before the wait for other blocks
        const T* const from = static_cast<const T*>(args.gates[direction]) +
                              (sample * args.steps + time) * kGates * args.hidden + unit;
#pragma unroll
        for (int g = 0; g < kGates; ++g) input[g] = to_compute(from[g * args.hidden]);
      }
      float* const hidden = shared + (step & 1) * window;
      gather(step, hidden);
      __syncthreads();
      Gates recurrent = {};
#pragma unroll 1  // registers are full of weights
      for (int b = 0; b < args.num_batch; ++b) {
        Gates sums;
        multiply(hidden + b * args.pitch, sums);
#pragma unroll
        for (int g = 0; g < kGates; ++g)
          recurrent[g] = lane == b ? sums[g] + bias[g] : recurrent[g];
      }
      if (!mine) continue;
      const float h = next(input, recurrent, cell, hidden[lane * args.pitch + unit]);
      if (step + 1 < args.steps) {
        publish(slot(step, lane, unit), h, static_cast<unsigned>(step) + 1);
      } else {
        static_cast<T*>(args.h_n)[place(lane, unit)] = from_compute<T>(h);
        if constexpr (kCell == RecurrentCell::kLstm)
          static_cast<T*>(args.c_n)[place(lane, unit)] = from_compute<T>(cell);
      }
      static_cast<T*>(args.out)[sample * args.out_batch + time * args.out_step +
                                static_cast<long long>(direction) * args.hidden + unit] =
          from_compute<T>(h);
    }
    if (kCell == RecurrentCell::kLstm && mine && last_step < args.steps)
      args.cells[place(lane, unit)] = cell;
  }
};

template <class T, RecurrentCell kCell, int kCols>
__global__ void __launch_bounds__(kRecurrentUnits * 32, 1)
    recurrent(const __grid_constant__ RecurrentArgs args) {
  const Recurrent<T, kCell, kCols> units(args);
  units.run(reinterpret_cast<float*>(dynamic_shared()));
}

}  // namespace gpk
