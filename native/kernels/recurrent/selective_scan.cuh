// Mamba's selective scan, for every channel and each of its states (up to 32):
//   dt = softplus(delta + bias);  h = exp(dt a) h + dt b x;  y = (sum over states of c h) + d x
// then y silu(z). Threads: kStates lanes of a warp have a channel, a state each. Grid: x channels,
// y chunks, z batches. Tiles of 32 steps are staged in shared memory, so that accesses along the
// sequence are coalesced. Long sequences are cut into chunks, a fixed number of steps each: the
// state that each one adds (scan_states), the state at the start of each (scan_combine), outputs
// (scan_outputs). float32.
#pragma once

#include "args/recurrent.h"
#include "common/dtype.cuh"

namespace gpk {

using namespace kernels;

template <class T, int kStates>
struct SelectiveScan {
  static constexpr int kTile = 32;  // steps
  static constexpr int kChannels = kScanThreads / kStates;
  struct Shared {
    float b[kStates][kTile + 1];
    float c[kStates][kTile + 1];
    float x[kChannels][kTile + 1];
    float dt[kChannels][kTile + 1];
    float y[kChannels][kTile + 1];
  };

  const SelectiveScanArgs& args;
  Shared& shared;
  int batch, first_channel, chunk;
  int group;  // channel of the thread in the block
  int state;

  __device__ __forceinline__ SelectiveScan(const SelectiveScanArgs& given, Shared& tile)
      : args(given),
        shared(tile),
        batch(static_cast<int>(blockIdx.z)),
        first_channel(static_cast<int>(blockIdx.x) * kChannels),
        chunk(static_cast<int>(blockIdx.y)),
        group(static_cast<int>(threadIdx.x) / kStates),
        state(static_cast<int>(threadIdx.x) % kStates) {}

  __device__ __forceinline__ int channel() const { return first_channel + group; }
  __device__ __forceinline__ bool inside() const {
    return channel() < args.channels && state < args.states_per_channel;
  }
  __device__ __forceinline__ float rate() const {
    return inside() ? args.a[static_cast<long long>(channel()) * args.states_per_channel + state]
                    : 0.0f;
  }
  // In [batch, chunks, channels, states].
  __device__ __forceinline__ long long scratch(int of_chunk) const {
    return ((static_cast<long long>(batch) * args.chunks + of_chunk) * args.channels + channel()) *
               args.states_per_channel +
           state;
  }
  __device__ __forceinline__ long long place() const {
    return (static_cast<long long>(batch) * args.channels + channel()) * args.states_per_channel +
           state;
  }

  // Rows of [batch, rows, length], `count` steps from `first` on; zeros outside.
  template <int kRows>
  __device__ __forceinline__ void load(const void* from, int first_row, int rows, int first,
                                       int count, float (&to)[kRows][kTile + 1]) const {
    const T* const base =
        static_cast<const T*>(from) + static_cast<long long>(batch) * rows * args.length + first;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kTile; i += kScanThreads) {
      const int row = first_row + i / kTile;
      const bool in = row < rows && i % kTile < count;
      to[i / kTile][i % kTile] =
          in ? to_compute(base[static_cast<long long>(row) * args.length + i % kTile]) : 0.0f;
    }
  }
  __device__ __forceinline__ float step_of(float delta, int of_channel) const {
    if (args.bias != nullptr && of_channel < args.channels) delta += args.bias[of_channel];
    if (args.softplus == 0) return delta;
    return fmaxf(delta, 0.0f) + log1pf(expf(-fabsf(delta)));
  }
  __device__ __forceinline__ void load_tile(int first, int count, bool outputs) const {
    load(args.x, first_channel, args.channels, first, count, shared.x);
    load(args.delta, first_channel, args.channels, first, count, shared.dt);
    load(args.b, 0, args.states_per_channel, first, count, shared.b);
    if (outputs) load(args.c, 0, args.states_per_channel, first, count, shared.c);
    // A thread changes what it loaded itself.
    for (int i = static_cast<int>(threadIdx.x); i < kChannels * kTile; i += kScanThreads)
      shared.dt[i / kTile][i % kTile] =
          i % kTile < count ? step_of(shared.dt[i / kTile][i % kTile], first_channel + i / kTile)
                            : 0.0f;
  }

  __device__ __forceinline__ void store_tile(int first, int count) const {
    for (int i = static_cast<int>(threadIdx.x); i < kChannels * kTile; i += kScanThreads) {
      const int of_channel = first_channel + i / kTile;
      if (of_channel >= args.channels || i % kTile >= count) continue;
      const long long at =
          (static_cast<long long>(batch) * args.channels + of_channel) * args.length + first +
          i % kTile;
      float y = shared.y[i / kTile][i % kTile];
      if (args.d != nullptr) y += args.d[of_channel] * shared.x[i / kTile][i % kTile];
      if (args.z != nullptr) {
        const float z = to_compute(static_cast<const T*>(args.z)[at]);
        y *= z / (1.0f + expf(-z));
      }
      static_cast<T*>(args.out)[at] = from_compute<T>(y);
    }
  }

  // Steps of the chunk from state `h` on. Returns the sum of dt.
  template <bool kOutputs>
  __device__ __forceinline__ float run(float a, float& h) const {
    const int begin = chunk * args.chunk;
    const int end = min(begin + args.chunk, args.length);
    float total = 0.0f;
    for (int first = begin; first < end; first += kTile) {
      const int count = min(end - first, kTile);
      load_tile(first, count, kOutputs);
      __syncthreads();
#pragma unroll 4
      for (int t = 0; t < kTile; ++t) {  // past the end dt is 0: nothing changes
        const float dt = shared.dt[group][t];
        h = expf(dt * a) * h + dt * shared.x[group][t] * shared.b[state][t];
        total += dt;
        if constexpr (kOutputs) {
          float y = h * shared.c[state][t];
#pragma unroll
          for (int mask = kStates / 2; mask > 0; mask >>= 1)
            y += __shfl_xor_sync(0xffffffffu, y, mask);
          if (state == 0) shared.y[group][t] = y;
        }
      }
      __syncthreads();
      if constexpr (kOutputs) store_tile(first, count);
    }
    return total;
  }
};

template <class T, int kStates>
__global__ void __launch_bounds__(kScanThreads)
    scan_states(const __grid_constant__ SelectiveScanArgs args) {
  __shared__ typename SelectiveScan<T, kStates>::Shared shared;
  const SelectiveScan<T, kStates> scan(args, shared);
  const float a = scan.rate();
  float h = 0.0f;
  const float total = scan.template run<false>(a, h);
  if (!scan.inside()) return;
  args.states[scan.scratch(scan.chunk)] = h;
  args.decays[scan.scratch(scan.chunk)] = expf(a * total);
}

// A thread has one state of one channel of one batch.
__global__ void __launch_bounds__(kScanThreads)
    scan_combine(const __grid_constant__ SelectiveScanArgs args) {
  const long long per_batch = static_cast<long long>(args.channels) * args.states_per_channel;
  const long long id = static_cast<long long>(blockIdx.x) * kScanThreads + threadIdx.x;
  if (id >= args.batch * per_batch) return;
  float h = args.state == nullptr ? 0.0f : args.state[id];
  const long long first = id / per_batch * args.chunks * per_batch + id % per_batch;
  for (int chunk = 0; chunk < args.chunks; ++chunk) {
    const long long at = first + chunk * per_batch;
    const float added = args.states[at];
    args.states[at] = h;
    h = args.decays[at] * h + added;
  }
  args.state_out[id] = h;
}

template <class T, int kStates>
__global__ void __launch_bounds__(kScanThreads)
    scan_outputs(const __grid_constant__ SelectiveScanArgs args) {
  __shared__ typename SelectiveScan<T, kStates>::Shared shared;
  const SelectiveScan<T, kStates> scan(args, shared);
  const bool whole = args.states == nullptr;
  float h = 0.0f;
  if (scan.inside()) {
    if (!whole) {
      h = args.states[scan.scratch(scan.chunk)];
    } else if (args.state != nullptr) {
      h = args.state[scan.place()];
    }
  }
  scan.template run<true>(scan.rate(), h);
  if (whole && scan.inside()) args.state_out[scan.place()] = h;
}

}  // namespace gpk
